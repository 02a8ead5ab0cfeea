//! How a listener speaks to its clients: one file for each idea, each with its model and its Envoy form.
//!
//! What Envoy alone can judge (formats, conditions, headers made from templates) are the texts: each is written behind
//! the rest of a connection manager, as a piece of its own, so that it can be refused, and left out, on its own. What
//! decides who a client is and what it may claim are the guards: a connection through a chain without them gets no
//! further, see `guard.rs`.

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

/// Something that is said.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Where requests are written down.
    AccessLogs(Vec<AccessLog>),
    /// Where they are traced.
    Tracer(Tracer),
    /// What answers look like that Envoy itself gives.
    LocalReplies(LocalReplies),
    /// Changes to requests before a route is looked for.
    EarlyHeaders(EarlyHeaders),
    /// Who the client is.
    ClientAddress(ClientAddress),
    /// Which certificates clients show.
    Clients(Arc<ClientCertificates>),
    /// What back ends are told of them.
    ForwardedCertificate(ForwardedCertificate),
    /// What connections may become, beside what they always may.
    Upgrades(Vec<Arc<str>>),
    /// Identities of requests.
    RequestId(RequestId),
    /// The header `server`.
    Server(ServerHeader),
    /// How long something may take.
    Time(TimeLimit),
    /// How much there may be of something.
    Limit(Limit),
    /// HTTP/1.
    Http1(Http1),
    /// HTTP/2.
    Http2(Http2),
    /// Envoy itself answers for its health.
    Health(HealthCheck),
    /// What becomes of hosts that requests name.
    Host(HostForm),
    /// Is `Expect: 100-continue` for back ends to answer?
    Expect(bool),
    /// The port, whatever is spoken on it.
    Socket(Socket),
}

/// What is said to a listener.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListenerSettings {
    /// What its Envoys call themselves, where nothing else is said.
    pub service: Arc<str>,
    /// What is said, by field.
    pub parts: BTreeMap<&'static str, Part>,
}

impl Part {
    /// Is it one of those that protect back ends?
    pub fn guards(&self) -> bool {
        match self {
            Part::EarlyHeaders(_) | Part::ClientAddress(_) | Part::Clients(_) | Part::ForwardedCertificate(_) => true,
            Part::Socket(socket) => socket.guards(),
            _ => false,
        }
    }

    /// Does it only observe requests? Then it protects none, and one that cannot be used is left out.
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

    /// Does it protect requests or back ends?
    pub fn protects(&self) -> bool {
        match self {
            Part::AccessLogs(_)
            | Part::Tracer(_)
            | Part::LocalReplies(_)
            | Part::RequestId(_)
            | Part::Server(_)
            // Without it less is taken.
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

    /// Does it hold for all that stands behind a port?
    pub fn is_of_port(&self) -> bool {
        matches!(self, Part::Socket(Socket::Proxy { .. } | Socket::Keepalive(_) | Socket::Buffer(_)))
    }

    /// Those whom Envoy tells something.
    pub fn remotes(&self) -> Vec<&Remote> {
        match self {
            Part::AccessLogs(logs) => logs.iter().filter_map(AccessLog::remote).collect(),
            Part::Tracer(tracer) => vec![&tracer.collector.remote],
            _ => Vec::new(),
        }
    }

    /// What Envoy alone can judge, as it stands behind the rest of a connection manager.
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
            // They stand elsewhere: behind the rest, among the filters, at the chain or the listener.
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
    /// Writes into a connection manager what is said about it, but for the texts.
    pub(crate) fn apply(&self, manager: &mut HttpConnectionManager) {
        self.parts.values().for_each(|part| part.apply(manager));
    }

    /// The texts by field, as they stand behind the rest of a connection manager.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
        self.parts.iter().filter_map(|(field, part)| Some((*field, part.text(&self.service)?)))
    }

    /// Those whom Envoy tells something.
    pub fn remotes(&self) -> impl Iterator<Item = &Remote> {
        self.parts.values().flat_map(Part::remotes)
    }

    /// Which certificates clients show.
    pub fn clients(&self) -> Option<&Arc<ClientCertificates>> {
        self.parts.values().find_map(|part| if let Part::Clients(clients) = part { Some(clients) } else { None })
    }

    /// Where Envoy itself answers for its health.
    pub(crate) fn health_check(&self) -> Option<(&'static str, &HealthCheck)> {
        let mut parts = self.parts.iter();
        parts.find_map(|(field, part)| if let Part::Health(check) = part { Some((*field, check)) } else { None })
    }

    /// What is said about sockets.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.parts.values().filter_map(|part| if let Part::Socket(socket) = part { Some(socket) } else { None })
    }
}
