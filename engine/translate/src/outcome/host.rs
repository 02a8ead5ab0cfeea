//! The outcome of a root HTTPProxy about its host, and the Gateway API routes that claim the same hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::object::Age;
use holdfast_envoy::features::client_certificate::ClientCertificates;
use holdfast_envoy::features::server_tls::ServerTls;
use holdfast_envoy::features::stream::Stream;
use holdfast_envoy::model::table::Host;
use holdfast_graph::{Edge, ObjectKey};

use super::finding::Finding;
use super::listener::CertificateDates;
use super::{Outcome, Outcomes};

/// Claim of a root.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostClaim {
    /// The host; unset if there is no valid host.
    pub host: Option<Host>,
    /// Listeners of the host; unset without a host.
    pub(crate) seats: Option<Seats>,
    /// TLS, if configured.
    pub tls: Option<TlsClaim>,
    /// The host is closed.
    pub closed: bool,
    /// Findings.
    pub findings: Vec<Finding>,
    /// References that were read.
    pub edges: Vec<Edge>,
}

/// Listeners of a host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seats {
    /// The Gateway.
    pub gateway: ObjectKey,
    /// Port without TLS; unset if it is not available.
    pub http: Option<u16>,
    /// Listener with TLS; unset if TLS is not configured or not available.
    pub https: Option<Secure>,
}

/// A separate filter chain with TLS.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Secure {
    /// Name of the generated listener.
    pub name: Arc<str>,
    /// The port.
    pub port: u16,
    /// The port for clients.
    pub(crate) seen_port: u16,
    /// Name of the listener for clients without SNI; unset if another listener serves these clients.
    pub nameless: Option<Arc<str>>,
}

/// TLS of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TlsClaim {
    /// The certificate; without one, connections are refused, unless the backend terminates TLS.
    pub certificate: Option<ObjectKey>,
    /// An existing certificate that is invalid, with the reason.
    pub broken: Option<(ObjectKey, String)>,
    /// The dates of the certificates.
    pub(crate) dates: BTreeMap<ObjectKey, CertificateDates>,
    /// Versions of TLS.
    pub settings: ServerTls,
    /// Verification of client certificates.
    pub clients: Option<Arc<ClientCertificates>>,
    /// The fallback certificate for clients without SNI, if the host is served to them.
    pub fallback: Option<ObjectKey>,
    /// An existing fallback certificate that is invalid, with the reason.
    pub(crate) broken_fallback: Option<(ObjectKey, String)>,
    /// Destination of connections that bypass the routes of the host.
    pub stream: Option<StreamClaim>,
}

impl TlsClaim {
    /// Returns the dates of a certificate.
    pub(crate) fn dates_of(&self, certificate: &Option<ObjectKey>) -> BTreeMap<ObjectKey, CertificateDates> {
        let dates = certificate.as_ref().and_then(|key| self.dates.get_key_value(key));
        dates.map(|(key, dates)| (key.clone(), *dates)).into_iter().collect()
    }

    /// Refuses all connections; the references to certificates are kept.
    pub(crate) fn refuse(&mut self) {
        self.certificate = None;
        self.fallback = None;
        if let Some(stream) = &mut self.stream {
            stream.to = None;
        }
    }

    /// Checks whether the routes of the host serve requests over TLS.
    pub(crate) fn has_routes(&self) -> bool {
        self.certificate.is_some() && self.stream.is_none()
    }

    /// Checks whether the host is served to clients without SNI.
    pub(crate) fn is_served_to_nameless(&self) -> bool {
        self.has_routes() && self.fallback.is_some()
    }

    /// Checks whether connections are accepted.
    pub(crate) fn is_served(&self) -> bool {
        match &self.stream {
            Some(stream) => stream.to.is_some() && (stream.passthrough || self.certificate.is_some()),
            None => self.certificate.is_some(),
        }
    }
}

/// Destination of the connections of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StreamClaim {
    /// The backend terminates TLS.
    pub passthrough: bool,
    /// The destination; unset if connections are refused.
    pub to: Option<Arc<Stream>>,
    /// HTTPProxies that the `tcpproxy` is delegated to, in order.
    pub members: Vec<ObjectKey>,
}

/// A route of Gateway API that claims a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claimant {
    /// The host.
    pub(crate) host: Host,
    /// Age of the route.
    pub(crate) age: Age,
    /// Listeners at which the route claims the host.
    pub(crate) listeners: BTreeSet<Arc<str>>,
}

/// Routes that claim each host at the Gateway of HTTPProxies.
pub(crate) type Claimants = BTreeMap<Host, BTreeMap<ObjectKey, Claimant>>;

impl Outcome for HostClaim {
    fn of<'o>(outcomes: &'o Outcomes, key: &ObjectKey) -> Option<&'o Arc<Self>> {
        outcomes.hosts.get(key)
    }

    fn set(outcomes: &mut Outcomes, key: &ObjectKey, outcome: Option<Arc<Self>>) {
        match outcome {
            Some(outcome) => drop(outcomes.hosts.insert(key.clone(), outcome)),
            None => drop(outcomes.hosts.remove(key)),
        }
    }
}
