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

use self::access_log::AccessLog;
use self::client_address::ClientAddress;
use self::early_headers::EarlyHeaders;
use self::forwarded_certificate::ForwardedCertificate;
use self::health_check::HealthCheck;
use self::host_form::HostForm;
use self::http1::Http1;
use self::http2::Http2;
use self::limit::Limit;
use self::local_replies::LocalReplies;
use self::request_id::RequestId;
use self::server_header::ServerHeader;
use self::socket::Socket;
use self::time_limit::TimeLimit;
use self::tracer::Tracer;
use super::client_certificate::ClientCertificates;
use super::remote::Remote;

/// One setting of a listener.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Access logs.
    AccessLogs(Vec<AccessLog>),
    /// Tracing.
    Tracer(Tracer),
    /// Format of local replies.
    LocalReplies(LocalReplies),
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
    Http1(Http1),
    /// HTTP/2.
    Http2(Http2),
    /// Health check endpoint of Envoy.
    Health(HealthCheck),
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
    pub parts: BTreeMap<&'static str, Part>,
}

impl Part {
    /// Returns whether the setting is a guard, which protects backends.
    pub fn guards(&self) -> bool {
        match self {
            Part::EarlyHeaders(_) | Part::ClientAddress(_) | Part::Clients(_) | Part::ForwardedCertificate(_) => true,
            Part::Socket(socket) => socket.guards(),
            _ => false,
        }
    }

    /// Returns whether the setting only observes requests. It then protects none, and is left out where it is unusable.
    pub fn only_observes(&self) -> bool {
        match self {
            Part::AccessLogs(_) | Part::Tracer(_) => true,
            Part::LocalReplies(_)
            | Part::EarlyHeaders(_)
            | Part::ClientAddress(_)
            | Part::Clients(_)
            | Part::ForwardedCertificate(_)
            | Part::Upgrades(_)
            | Part::RequestId(_)
            | Part::Server(_)
            | Part::Time(_)
            | Part::Limit(_)
            | Part::Http1(_)
            | Part::Http2(_)
            | Part::Health(_)
            | Part::Host(_)
            | Part::Expect(_)
            | Part::Socket(_) => false,
        }
    }

    /// Returns whether the setting protects requests or backends.
    pub fn protects(&self) -> bool {
        match self {
            Part::AccessLogs(_)
            | Part::Tracer(_)
            | Part::LocalReplies(_)
            | Part::RequestId(_)
            | Part::Server(_)
            // Without upgrades, fewer requests are accepted.
            | Part::Upgrades(_)
            | Part::Expect(_)
            | Part::Health(_) => false,
            Part::EarlyHeaders(_)
            | Part::ClientAddress(_)
            | Part::Clients(_)
            | Part::ForwardedCertificate(_)
            | Part::Time(_)
            | Part::Limit(_)
            | Part::Http1(_)
            | Part::Http2(_)
            | Part::Host(_)
            | Part::Socket(_) => true,
        }
    }

    /// Returns whether the setting applies to all filter chains of a port.
    pub fn is_of_port(&self) -> bool {
        matches!(self, Part::Socket(Socket::Proxy { .. } | Socket::Keepalive(_) | Socket::Buffer(_)))
    }

    /// Returns the services that receive logs or traces.
    pub fn remotes(&self) -> Vec<&Remote> {
        match self {
            Part::AccessLogs(logs) => logs.iter().filter_map(AccessLog::remote).collect(),
            Part::Tracer(tracer) => vec![&tracer.collector.remote],
            _ => Vec::new(),
        }
    }

    /// Returns the setting as a text: a fragment to append to an encoded connection manager.
    fn text(&self, service: &str) -> Option<Vec<u8>> {
        match self {
            Part::AccessLogs(logs) => Some(access_log::encode(logs, service)),
            Part::Tracer(tracer) => Some(tracer.encode(service)),
            Part::LocalReplies(replies) => Some(replies.encode()),
            Part::EarlyHeaders(headers) => Some(headers.encode()),
            _ => None,
        }
    }

    fn apply(&self, manager: &mut HttpConnectionManager) {
        match self {
            // These settings are written elsewhere: as fragments, among the filters, into the chain or the listener.
            Part::AccessLogs(_) | Part::Tracer(_) | Part::LocalReplies(_) | Part::EarlyHeaders(_) => {}
            Part::Health(_) | Part::Clients(_) | Part::Socket(_) => {}
            Part::ClientAddress(address) => address.apply(manager),
            Part::ForwardedCertificate(forwarded) => forwarded.apply(manager),
            Part::Upgrades(names) => upgrades::apply(names, manager),
            Part::RequestId(identity) => identity.apply(manager),
            Part::Server(server) => server.apply(manager),
            Part::Time(time) => time.apply(manager),
            Part::Limit(limit) => limit.apply(manager),
            Part::Http1(http1) => http1.apply(manager),
            Part::Http2(http2) => http2.apply(manager),
            Part::Host(form) => form.apply(manager),
            Part::Expect(passed_on) => manager.proxy_100_continue = *passed_on,
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
        self.parts.values().flat_map(Part::remotes)
    }

    /// Returns the client certificate settings.
    pub fn clients(&self) -> Option<&Arc<ClientCertificates>> {
        self.parts.values().find_map(|part| if let Part::Clients(clients) = part { Some(clients) } else { None })
    }

    /// Returns the health check endpoint, with its field.
    pub fn health_check(&self) -> Option<(&'static str, &HealthCheck)> {
        let mut parts = self.parts.iter();
        parts.find_map(|(field, part)| if let Part::Health(check) = part { Some((*field, check)) } else { None })
    }

    /// Returns the settings of the port.
    pub fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.parts.values().filter_map(|part| if let Part::Socket(socket) = part { Some(socket) } else { None })
    }
}
