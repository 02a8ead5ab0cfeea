//! The outcome of a listener of a Gateway or ListenerSet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gateway_api::gateways::{
    GatewayListenersAllowedRoutesNamespacesSelector as Selector, GatewayListenersTls, GatewayListenersTlsMode,
};
use holdfast_api::apis::gateway::gateway::ListenerEntry;
use holdfast_api::apis::gateway::tls_options::TlsOption;
use holdfast_api::apis::kinds;
use holdfast_api::section;
use holdfast_api::status::Condition;
use holdfast_check::certificate::{DateFault, Validity};
use holdfast_envoy::features::client_certificate::ClientCertificates;
use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_envoy::features::server_tls::ServerTls;
use holdfast_envoy::features::stream::Stream;
use holdfast_envoy::model::certificates::{self, CertificateLabels, ShownAt};
use holdfast_envoy::model::port::{BoundPort, Transport};
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_graph::{Node, ObjectKey};

/// What a listener receives from clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// HTTP requests, which HTTPRoutes, GRPCRoutes and HTTPProxies answer.
    Requests,
    /// Connections of which only the port is known. The oldest TCPRoute has them.
    Tcp,
    /// Connections with TLS that Envoy terminates. TLSRoutes forward them by the server name.
    Terminated,
    /// Connections with TLS that backends terminate. TLSRoutes forward them by the server name.
    Passthrough,
    /// Datagrams. The oldest UDPRoute has them.
    Datagrams,
}

impl Traffic {
    /// Returns what a listener of a protocol receives.
    pub(crate) fn of(protocol: &str, tls: Option<&GatewayListenersTls>) -> Self {
        match (protocol, tls.and_then(|tls| tls.mode.as_ref())) {
            ("TLS", Some(GatewayListenersTlsMode::Passthrough)) => Traffic::Passthrough,
            ("TLS", _) => Traffic::Terminated,
            ("TCP", _) => Traffic::Tcp,
            ("UDP", _) => Traffic::Datagrams,
            _ => Traffic::Requests,
        }
    }

    /// Returns the kinds of route that a listener can serve.
    pub(crate) fn kinds(self) -> &'static [&'static str] {
        match self {
            Traffic::Requests => &[kinds::HTTP_ROUTE, kinds::GRPC_ROUTE],
            Traffic::Tcp => &[kinds::TCP_ROUTE],
            Traffic::Terminated | Traffic::Passthrough => &[kinds::TLS_ROUTE],
            Traffic::Datagrams => &[kinds::UDP_ROUTE],
        }
    }

    /// Returns the transport protocol.
    pub(crate) fn transport(self) -> Transport {
        if self == Traffic::Datagrams { Transport::Udp } else { Transport::Tcp }
    }

    /// Returns whether only the port distinguishes what a listener receives: hostnames have no effect.
    pub(crate) fn is_of_port(self) -> bool {
        matches!(self, Traffic::Tcp | Traffic::Datagrams)
    }
}

/// The state of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerState {
    /// The listener serves.
    Serving,
    /// The listener owns its port and host but answers no request: a TLS listener without a usable certificate, or a
    /// host that two listeners claim. A broader listener must not answer instead.
    Closed,
    /// Envoys refuse the listener: it owns its port and host, and connections are refused.
    Refused,
    /// The listener takes no part.
    Out,
}

/// The origin of a listener in a ListenerSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfSet {
    /// The set.
    pub key: ObjectKey,
    /// The listener's name in the set.
    pub section: Arc<str>,
}

/// The outcome of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerPlan {
    /// The name among all listeners of the Gateway. For a listener of a ListenerSet, the name is composed of the set's
    /// namespace, the set's name, and the listener's name in the set.
    pub name: Arc<str>,
    /// The ListenerSet that adds the listener; unset for a listener of the Gateway itself.
    pub set: Option<OfSet>,
    /// The field path in the Gateway or ListenerSet.
    pub field: String,
    /// The bound port.
    pub port: u16,
    /// The port as written.
    pub declared_port: i32,
    /// The protocol as written; empty where the listener could not be decoded.
    pub protocol: Arc<str>,
    /// Whether the listener uses TLS.
    pub https: bool,
    /// What the listener receives.
    pub traffic: Traffic,
    /// The hostname; all hosts where unset.
    pub hostname: Option<Arc<str>>,
    /// The fault of the hostname as written. A listener that takes part nevertheless has the hostname of the last valid
    /// version, which yields to claims of other listeners today.
    pub hostname_fault: Option<String>,
    /// The kinds of route that may attach.
    pub kinds: BTreeSet<&'static str>,
    /// The namespaces of routes that may attach.
    pub namespaces: Namespaces,
    /// The port that clients use.
    pub(crate) seen_port: u16,
    /// Versions and algorithms of TLS.
    pub(crate) tls: ServerTls,
    /// The TLS options with a value that cannot be used, each with the reason. A listener that serves nevertheless has
    /// values of the last valid version.
    pub option_faults: Vec<(TlsOption, String)>,
    /// Whether HTTPProxies can be served at the listener: a generated one, or a plain listener of the Gateway they join.
    pub proxies: bool,
    /// The usable certificates.
    pub certificates: Vec<ObjectKey>,
    /// The validation of client certificates.
    pub clients: Option<Arc<ClientCertificates>>,
    /// The destination of connections that are forwarded as TCP; unset where routes answer.
    pub stream: Option<Arc<Stream>>,
    /// Whether clients that name no host are served, too.
    pub(crate) to_nameless: bool,
    /// The dates of the usable certificates.
    pub certificate_dates: BTreeMap<ObjectKey, CertificateDates>,
    /// What Envoy selects each of several certificates by; none for a host of HTTPProxies, which has one certificate.
    pub(crate) certificate_labels: BTreeMap<ObjectKey, CertificateLabels>,
    /// The certificates that exist and are unusable, each with the reason.
    pub broken_certificates: Vec<(ObjectKey, String)>,
    /// All certificates of a Gateway's or ListenerSet's listener that exist, usable or not, in the order written.
    pub(crate) named_certificates: Vec<ObjectKey>,
    /// The state of the listener.
    pub state: ListenerState,
    /// Whether another process or Gateway uses the port, so that connections reach that one.
    pub is_port_in_use: bool,
    /// Whether the listener is closed because clients cannot be validated as its Gateway requires. Requests of
    /// connections from before are not answered by backends either.
    pub(crate) is_unvalidated: bool,
    /// The condition `Accepted`.
    pub accepted: Condition,
    /// The condition `Conflicted`.
    pub conflicted: Condition,
    /// The condition `ResolvedRefs`.
    pub resolved_refs: Condition,
}

/// The dates of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateDates {
    /// When the certificate is valid.
    pub validity: Validity,
    /// What is reported about it now; unset too while the time is unknown.
    pub fault: Option<DateFault>,
}

impl CertificateDates {
    /// Returns why clients refuse the certificate now.
    pub fn outside(&self) -> Option<DateFault> {
        self.fault.filter(|fault| fault.is_outside())
    }
}

impl ListenerPlan {
    /// Returns the usable certificates that clients refuse now, outside of their validity.
    pub fn outdated_certificates(&self) -> impl Iterator<Item = (&ObjectKey, DateFault)> {
        self.certificate_dates.iter().filter_map(|(key, dates)| Some((key, dates.outside()?)))
    }

    /// Returns the names at which clients get each of the certificates.
    pub fn shown_certificates(&self) -> BTreeMap<&ObjectKey, ShownAt> {
        let unknown = CertificateLabels::default();
        let labels = self.certificates.iter().map(|key| self.certificate_labels.get(key).unwrap_or(&unknown));
        let shown = certificates::shown(&self.host(), &labels.collect::<Vec<_>>());
        self.certificates.iter().zip(shown).collect()
    }

    /// Returns a listener that serves as far as its name, port and protocol show.
    pub(crate) fn unread(owner: &ObjectKey, field: &str, entry: &ListenerEntry) -> Self {
        let set =
            (&*owner.kind == kinds::LISTENER_SET).then(|| OfSet { key: owner.clone(), section: entry.name.clone() });
        let name = match &set {
            // The names of a Gateway's own listeners contain no slash.
            Some(set) => format!("{}/{}/{}", owner.namespace, owner.name, set.section).into(),
            None => entry.name.clone(),
        };
        Self {
            name,
            set,
            field: field.to_owned(),
            port: 0,
            seen_port: 0,
            tls: ServerTls::default(),
            option_faults: Vec::new(),
            proxies: false,
            declared_port: entry.written.as_ref().map_or(0, |listener| listener.port),
            protocol: entry.written.as_ref().map_or_else(|| "".into(), |listener| (&*listener.protocol).into()),
            https: false,
            traffic: Traffic::Requests,
            hostname: None,
            hostname_fault: None,
            kinds: Traffic::Requests.kinds().iter().copied().collect(),
            namespaces: Namespaces::Same,
            certificates: Vec::new(),
            clients: None,
            stream: None,
            to_nameless: false,
            certificate_dates: BTreeMap::new(),
            certificate_labels: BTreeMap::new(),
            broken_certificates: Vec::new(),
            named_certificates: Vec::new(),
            state: ListenerState::Serving,
            is_port_in_use: false,
            is_unvalidated: false,
            accepted: Condition::new("Accepted", true, "Accepted", "the listener is served"),
            conflicted: Condition::new(
                "Conflicted",
                false,
                "NoConflicts",
                "no other listener claims the same port, protocol and hostname",
            ),
            resolved_refs: Condition::new("ResolvedRefs", true, "ResolvedRefs", "every reference was resolved"),
        }
    }

    /// Returns the object that the listener is written in: the ListenerSet that adds it, or this Gateway.
    pub fn owner<'a>(&'a self, gateway: &'a ObjectKey) -> &'a ObjectKey {
        self.set.as_ref().map_or(gateway, |set| &set.key)
    }

    /// Returns the name of the listener in the object that it is written in.
    pub fn section(&self) -> &Arc<str> {
        self.set.as_ref().map_or(&self.name, |set| &set.section)
    }

    /// Returns the unit of the listener.
    pub fn unit(&self, gateway: &ObjectKey) -> Node {
        Node::section(self.owner(gateway).clone(), section::listener(self.section()))
    }

    /// Returns the hosts that the listener owns.
    pub fn host(&self) -> Host {
        Host::new(self.hostname.as_ref())
    }

    /// Returns the table that contains its routes.
    pub fn table(&self) -> TableName {
        match self.has_own_table() {
            true => TableName::Listener(self.name.clone()),
            false => TableName::Port(self.port),
        }
    }

    /// Returns whether the listener is generated for HTTPProxies: no object declares it.
    pub fn is_generated(&self) -> bool {
        self.field.is_empty()
    }

    /// Returns whether the listener serves clients that name no host, or a host that no HTTPProxy has.
    pub fn is_for_nameless(&self) -> bool {
        self.proxies && self.https && self.hostname.is_none()
    }

    /// Returns whether the listener shares its routes with no other listener: a plain HTTP listener shares those of its port.
    pub fn has_own_table(&self) -> bool {
        self.https || self.forwards()
    }

    /// Returns whether the listener forwards connections, with a filter chain for each host of its routes.
    pub fn forwards(&self) -> bool {
        self.traffic != Traffic::Requests
    }

    /// Returns the bound port with its transport protocol.
    pub fn bound(&self) -> BoundPort {
        BoundPort { number: self.port, transport: self.traffic.transport() }
    }

    /// Returns the protocol as far as listeners of one port must agree on it.
    pub(crate) fn transport(&self) -> &'static str {
        match (self.https, self.traffic) {
            (true, _) => "TLS",
            (false, Traffic::Tcp) => "TCP",
            (false, Traffic::Datagrams) => "UDP",
            (false, _) => "HTTP",
        }
    }

    /// Returns whether routes have a place at the listener. This includes a closed TLS listener, which is served if an
    /// earlier version of its certificate is; while the listener is closed, no table exists for the routes.
    pub fn has_place(&self) -> bool {
        match self.state {
            ListenerState::Serving => true,
            ListenerState::Closed => self.https,
            ListenerState::Refused | ListenerState::Out => false,
        }
    }

    /// Returns whether the listener is closed for no other reason than that it has no usable certificate.
    pub(crate) fn lacks_only_certificates(&self) -> bool {
        self.state == ListenerState::Closed && self.accepted.status == "True" && self.certificates.is_empty()
    }

    /// Returns the listener with the earlier versions of its unusable certificates; `None` where all are usable.
    pub(crate) fn with_earlier_certificates(&self) -> Option<Self> {
        let is_accepted = self.accepted.status == "True";
        let has_some = !self.broken_certificates.is_empty() && !self.named_certificates.is_empty();
        (has_some && is_accepted && self.has_place()).then(|| Self {
            state: ListenerState::Serving,
            certificates: self.named_certificates.clone(),
            ..self.clone()
        })
    }

    /// Returns whether it has a route configuration: routes answer its requests, or those of connections from before
    /// are refused.
    pub(crate) fn has_routes(&self) -> bool {
        let is_answered = self.state == ListenerState::Serving || self.is_unvalidated;
        !self.forwards() && (!self.https || (is_answered && self.stream.is_none()))
    }

    /// Returns the properties that routes depend on.
    pub fn context(&self) -> ListenerContext {
        ListenerContext { https: self.https, port: self.seen_port }
    }

    /// Returns whether the listener takes part with a hostname that only an earlier version claims.
    pub fn is_lent(&self) -> bool {
        self.hostname_fault.is_some() && self.state != ListenerState::Out
    }

    /// Returns whether the listener is served with TLS options that only an earlier version has.
    pub fn has_lent_options(&self) -> bool {
        !self.option_faults.is_empty() && self.state == ListenerState::Serving
    }

    /// Closes the listener because another process or Gateway uses its port.
    pub(crate) fn reject_port_in_use(&mut self, message: &str) {
        self.reject(ListenerState::Out, "PortUnavailable", message);
        self.is_port_in_use = true;
    }

    /// Rejects the listener: it takes no part, or stays closed if it has hosts to keep.
    pub(crate) fn reject(&mut self, state: ListenerState, reason: &str, message: &str) {
        self.state = state;
        self.accepted = Condition::new("Accepted", false, reason, message);
    }

    /// Rejects a listener for the content of `tls`. A listener that takes no part has neither a port nor hosts to keep, and
    /// stays rejected for its first reason.
    pub(crate) fn reject_tls(&mut self, state: ListenerState, reason: &str, message: &str) {
        if self.state != ListenerState::Out {
            self.reject(state, reason, message);
        }
    }
}

/// Namespaces of the routes that may attach.
#[derive(Clone, Debug, PartialEq)]
pub enum Namespaces {
    /// All namespaces.
    All,
    /// The namespace of the Gateway or ListenerSet that the listener is written in.
    Same,
    /// The namespaces with matching labels.
    Selected(Box<Selector>),
    /// None: the selector is unusable, or the allowed routes are unknown.
    None,
}
