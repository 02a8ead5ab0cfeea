//! Connection settings of a listener towards its clients: one file for each setting, with its model and its Envoy form.
//!
//! Settings that only Envoy can validate (formats, conditions, headers from templates) are called texts: each is
//! appended to the encoded connection manager as a separate fragment, so that it can be refused and left out
//! separately. Settings that determine the identity of a client and the headers it may set are called guards: requests
//! on a connection through a chain without them are refused, see `guard.rs`.

pub mod access_log;
pub mod client_address;
pub mod collector;
pub mod early_headers;
pub mod format;
pub mod forwarded_certificate;
pub mod guard;
pub mod health_check;
pub mod host_form;
pub mod http1;
pub mod http2;
pub mod limit;
pub mod local_replies;
pub mod log_filter;
pub mod open_telemetry;
pub mod request_id;
pub mod server_header;
pub mod socket;
pub mod time_limit;
pub mod tracer;
pub mod upgrades;

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;

use self::access_log::AccessLogger;
use self::client_address::ClientAddress;
use self::early_headers::EarlyHeaders;
use self::forwarded_certificate::ForwardedCertificate;
use self::health_check::HealthCheckEndpoint;
use self::host_form::HostForm;
use self::http1::DownstreamHttp1;
use self::http2::DownstreamHttp2;
use self::limit::Limit;
use self::local_replies::LocalReplySettings;
use self::request_id::RequestId;
use self::server_header::ServerHeader;
use self::socket::Socket;
use self::time_limit::TimeLimit;
use self::tracer::Tracer;
use super::client_certificate::ClientCertificates;
use super::remote::Remote;

/// One setting of a listener.
#[derive(Clone, Debug, PartialEq)]
pub enum ListenerSetting {
    /// Access logs.
    AccessLogs(Vec<AccessLogger>),
    /// Tracing.
    Tracer(Tracer),
    /// Format of local replies.
    LocalReplies(LocalReplySettings),
    /// Header changes before route selection.
    EarlyHeaders(EarlyHeaders),
    /// Detection of the client's address.
    ClientAddress(ClientAddress),
    /// Client certificates.
    Clients(Arc<ClientCertificates>),
    /// Client certificate details that backends receive.
    ForwardedCertificate(ForwardedCertificate),
    /// Upgrades of connections, in addition to those that are always allowed.
    Upgrades(Vec<Arc<str>>),
    /// Request IDs.
    RequestId(RequestId),
    /// The response header `server`.
    Server(ServerHeader),
    /// A timeout.
    Time(TimeLimit),
    /// A limit.
    Limit(Limit),
    /// HTTP/1.
    Http1(DownstreamHttp1),
    /// HTTP/2.
    Http2(DownstreamHttp2),
    /// Health check endpoint of Envoy.
    Health(HealthCheckEndpoint),
    /// Normalization of a request's host.
    Host(HostForm),
    /// Whether `Expect: 100-continue` is forwarded to backends.
    Expect(bool),
    /// Settings of the port, independent of the protocol.
    Socket(Socket),
}

/// The settings of a listener.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListenerSettings {
    /// Default service name of the Envoys in traces and logs.
    pub service: Arc<str>,
    /// The settings by field.
    pub parts: BTreeMap<&'static str, ListenerSetting>,
}

impl ListenerSetting {
    /// Returns whether the setting is a guard, which protects backends.
    pub fn guards(&self) -> bool {
        match self {
            ListenerSetting::EarlyHeaders(_)
            | ListenerSetting::ClientAddress(_)
            | ListenerSetting::Clients(_)
            | ListenerSetting::ForwardedCertificate(_) => true,
            ListenerSetting::Socket(socket) => socket.guards(),
            _ => false,
        }
    }

    /// Returns whether the setting only observes requests. It then protects none, and is left out where it is unusable.
    pub fn only_observes(&self) -> bool {
        match self {
            ListenerSetting::AccessLogs(_) | ListenerSetting::Tracer(_) => true,
            ListenerSetting::LocalReplies(_)
            | ListenerSetting::EarlyHeaders(_)
            | ListenerSetting::ClientAddress(_)
            | ListenerSetting::Clients(_)
            | ListenerSetting::ForwardedCertificate(_)
            | ListenerSetting::Upgrades(_)
            | ListenerSetting::RequestId(_)
            | ListenerSetting::Server(_)
            | ListenerSetting::Time(_)
            | ListenerSetting::Limit(_)
            | ListenerSetting::Http1(_)
            | ListenerSetting::Http2(_)
            | ListenerSetting::Health(_)
            | ListenerSetting::Host(_)
            | ListenerSetting::Expect(_)
            | ListenerSetting::Socket(_) => false,
        }
    }

    /// Returns whether the setting protects requests or backends.
    pub fn protects(&self) -> bool {
        match self {
            ListenerSetting::AccessLogs(_)
            | ListenerSetting::Tracer(_)
            | ListenerSetting::LocalReplies(_)
            | ListenerSetting::RequestId(_)
            | ListenerSetting::Server(_)
            // Without upgrades, fewer requests are accepted.
            | ListenerSetting::Upgrades(_)
            | ListenerSetting::Expect(_)
            | ListenerSetting::Health(_) => false,
            ListenerSetting::EarlyHeaders(_)
            | ListenerSetting::ClientAddress(_)
            | ListenerSetting::Clients(_)
            | ListenerSetting::ForwardedCertificate(_)
            | ListenerSetting::Time(_)
            | ListenerSetting::Limit(_)
            | ListenerSetting::Http1(_)
            | ListenerSetting::Http2(_)
            | ListenerSetting::Host(_)
            | ListenerSetting::Socket(_) => true,
        }
    }

    /// Returns whether the setting applies to all filter chains of a port.
    pub fn is_of_port(&self) -> bool {
        matches!(self, ListenerSetting::Socket(Socket::Proxy { .. } | Socket::Keepalive(_) | Socket::Buffer(_)))
    }

    /// Returns the services that receive logs or traces.
    pub fn remotes(&self) -> Vec<&Remote> {
        match self {
            ListenerSetting::AccessLogs(logs) => logs.iter().filter_map(AccessLogger::remote).collect(),
            ListenerSetting::Tracer(tracer) => vec![&tracer.collector.remote],
            _ => Vec::new(),
        }
    }

    /// Returns the setting as a text: a fragment to append to an encoded connection manager.
    fn text(&self, service: &str) -> Option<Vec<u8>> {
        match self {
            ListenerSetting::AccessLogs(logs) => Some(access_log::encode(logs, service)),
            ListenerSetting::Tracer(tracer) => Some(tracer.encode(service)),
            ListenerSetting::LocalReplies(replies) => Some(replies.encode()),
            ListenerSetting::EarlyHeaders(headers) => Some(headers.encode()),
            _ => None,
        }
    }

    fn apply(&self, manager: &mut HttpConnectionManager) {
        match self {
            // These settings are written elsewhere: as fragments, among the filters, into the chain or the listener.
            ListenerSetting::AccessLogs(_)
            | ListenerSetting::Tracer(_)
            | ListenerSetting::LocalReplies(_)
            | ListenerSetting::EarlyHeaders(_) => {}
            ListenerSetting::Health(_) | ListenerSetting::Clients(_) | ListenerSetting::Socket(_) => {}
            ListenerSetting::ClientAddress(address) => address.apply(manager),
            ListenerSetting::ForwardedCertificate(forwarded) => forwarded.apply(manager),
            ListenerSetting::Upgrades(names) => upgrades::apply(names, manager),
            ListenerSetting::RequestId(identity) => identity.apply(manager),
            ListenerSetting::Server(server) => server.apply(manager),
            ListenerSetting::Time(time) => time.apply(manager),
            ListenerSetting::Limit(limit) => limit.apply(manager),
            ListenerSetting::Http1(http1) => http1.apply(manager),
            ListenerSetting::Http2(http2) => http2.apply(manager),
            ListenerSetting::Host(form) => form.apply(manager),
            ListenerSetting::Expect(passed_on) => manager.proxy_100_continue = *passed_on,
        }
    }
}

impl ListenerSettings {
    /// Writes the settings into a connection manager, except the texts.
    pub fn apply(&self, manager: &mut HttpConnectionManager) {
        self.parts.values().for_each(|part| part.apply(manager));
    }

    /// Returns the texts by field, as fragments to append to an encoded connection manager.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
        self.parts.iter().filter_map(|(field, part)| Some((*field, part.text(&self.service)?)))
    }

    /// Returns the services that receive logs or traces.
    pub fn remotes(&self) -> impl Iterator<Item = &Remote> {
        self.parts.values().flat_map(ListenerSetting::remotes)
    }

    /// Returns the client certificate settings.
    pub fn clients(&self) -> Option<&Arc<ClientCertificates>> {
        self.parts
            .values()
            .find_map(|part| if let ListenerSetting::Clients(clients) = part { Some(clients) } else { None })
    }

    /// Returns the health check endpoint, with its field.
    pub fn health_check(&self) -> Option<(&'static str, &HealthCheckEndpoint)> {
        let mut parts = self.parts.iter();
        parts.find_map(
            |(field, part)| if let ListenerSetting::Health(check) = part { Some((*field, check)) } else { None },
        )
    }

    /// Returns the settings of the port.
    pub fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.parts
            .values()
            .filter_map(|part| if let ListenerSetting::Socket(socket) = part { Some(socket) } else { None })
    }
}
