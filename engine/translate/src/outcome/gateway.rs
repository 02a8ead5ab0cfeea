//! The outcome of a Gateway.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::tls_options::TlsOption;
use holdfast_api::apis::kinds;
use holdfast_api::fault::Fault;
use holdfast_api::status::Condition;
use holdfast_check::certificate::DateFault;
use holdfast_envoy::features::upstream::ClientIdentity;
use holdfast_envoy::model::port::BoundPort;
use holdfast_graph::ObjectKey;

use super::listener::{CertificateDates, ListenerPlan, ListenerState};
use super::{Outcome, Outcomes};
use crate::provision::parameters::Parameters;

/// The reason of `ResolvedRefs` for a client certificate that cannot be used.
pub const INVALID_CLIENT_CERTIFICATE: &str = "InvalidClientCertificateRef";
/// What requests get without a usable client certificate.
pub const CLOSED_BACKENDS: &str = "requests to backends of the Gateway that are reached over TLS are answered with 500";

/// The outcome of a Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayPlan {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// The address that its listeners bind.
    pub address: IpAddr,
    /// The address that is requested of the load balancer of a cluster; unset where it assigns one.
    pub balanced: Option<IpAddr>,
    /// Its own listeners as written, then those that ListenerSets add, in the order of precedence.
    pub listeners: Vec<ListenerPlan>,
    /// The ListenerSets that request to join the Gateway.
    pub sets: BTreeMap<ObjectKey, SetPlan>,
    /// Whether the Gateway specifies allowed ListenerSets (`spec.allowedListeners`).
    pub specifies_allowed_sets: bool,
    /// Whether routes that use default Gateways attach to it.
    pub is_default: bool,
    /// TLS listeners of the HTTPProxies that are served at the Gateway, each for one host; routes do not use them.
    pub proxies: Vec<ListenerPlan>,
    /// The data plane settings.
    pub infrastructure: Infrastructure,
    /// The client certificate for backends; unset where the Gateway requires none.
    pub client: Option<Box<GatewayClient>>,
    /// The condition `Accepted`.
    pub accepted: Condition,
    /// The faults.
    pub faults: Vec<Fault>,
}

/// The client certificate that a Gateway presents to backends.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayClient {
    /// The certificate.
    pub identity: ClientIdentity,
    /// The dates of a usable certificate.
    pub dates: Option<CertificateDates>,
    /// The certificate that exists and is unusable, with the reason.
    pub broken: Option<(ObjectKey, String)>,
    /// The condition `ResolvedRefs`.
    pub resolved_refs: Condition,
}

impl GatewayClient {
    /// Returns the certificate that backends refuse now, outside of its validity.
    pub fn outdated(&self) -> Option<(&ObjectKey, DateFault)> {
        self.identity.secret().zip(self.dates.and_then(|dates| dates.outside()))
    }
}

impl GatewayPlan {
    /// Returns the client certificate for backends.
    pub fn identity(&self) -> &ClientIdentity {
        self.client.as_ref().map_or(&ClientIdentity::Anonymous, |client| &client.identity)
    }

    /// Returns the listeners that take part in serving a port: all except the rejected ones.
    pub(crate) fn on_port(&self, port: BoundPort) -> impl Iterator<Item = &ListenerPlan> {
        self.listeners.iter().filter(move |listener| listener.bound() == port && listener.state != ListenerState::Out)
    }

    /// Returns the listeners that are written in the Gateway itself.
    pub fn own(&self) -> impl Iterator<Item = &ListenerPlan> + Clone {
        self.listeners.iter().filter(|listener| listener.set.is_none())
    }

    /// Returns the listeners that are written in this object: a ListenerSet, or the Gateway where unset.
    pub fn of<'a>(&'a self, set: Option<&'a ObjectKey>) -> impl Iterator<Item = &'a ListenerPlan> + Clone {
        self.listeners.iter().filter(move |listener| listener.set.as_ref().map(|of| &of.key) == set)
    }

    /// Returns its listeners and those of HTTPProxies.
    pub fn all(&self) -> impl Iterator<Item = &ListenerPlan> + Clone {
        self.listeners.iter().chain(&self.proxies)
    }

    /// Returns whether two plans are equal for routes. Listeners of HTTPProxies and data plane settings do not count.
    pub(crate) fn is_same_to_routes(&self, other: &Self) -> bool {
        let Self {
            name,
            address,
            balanced: _,
            listeners,
            sets,
            specifies_allowed_sets: _,
            is_default: _,
            proxies: _,
            infrastructure: _,
            client: _,
            accepted,
            faults,
        } = self;
        (name, address, listeners, sets, accepted, faults)
            == (&other.name, &other.address, &other.listeners, &other.sets, &other.accepted, &other.faults)
    }

    /// Returns the address and port that a port is bound to.
    pub fn socket(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address, port)
    }
}

/// The outcome of a ListenerSet at its Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct SetPlan {
    /// The condition `Accepted`.
    pub accepted: Condition,
    /// Whether its listeners take part, as far as they can.
    pub joins: bool,
}

/// The data plane settings of a Gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Infrastructure {
    /// Labels of all objects that are created for the Gateway.
    pub labels: BTreeMap<String, String>,
    /// Annotations of all objects that are created for the Gateway.
    pub annotations: BTreeMap<String, String>,
    /// The merged parameters of the class and the Gateway; `None` where they are unusable.
    pub parameters: Option<Arc<Parameters>>,
}

/// What a listener uses of the last valid version of its Gateway or ListenerSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LentListener {
    /// The hostname, where today's cannot be used; the inner `None` means all hosts.
    pub hostname: Option<Option<Arc<str>>>,
    /// The values of TLS options of which today's cannot be used.
    pub options: BTreeMap<TlsOption, String>,
}

/// What the listeners of a Gateway or ListenerSet use of its last valid version.
pub type LentListeners = BTreeMap<Arc<str>, LentListener>;

/// Returns the key of a GatewayClass.
pub fn class_key(name: &str) -> ObjectKey {
    ObjectKey::new(GROUP, kinds::GATEWAY_CLASS, "", name)
}

impl Outcome for GatewayPlan {
    fn of<'o>(outcomes: &'o Outcomes, key: &ObjectKey) -> Option<&'o Arc<Self>> {
        outcomes.gateways.get(key)
    }

    fn set(outcomes: &mut Outcomes, key: &ObjectKey, outcome: Option<Arc<Self>>) {
        match outcome {
            Some(outcome) => drop(outcomes.gateways.insert(key.clone(), outcome)),
            None => {
                outcomes.gateways.remove(key);
                outcomes.lent.remove(key);
            }
        }
    }
}
