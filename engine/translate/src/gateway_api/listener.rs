//! Listeners: what each listener serves, the routes that it allows, and its certificates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gateway_api::gateways::{
    GatewayListenersAllowedRoutes, GatewayListenersAllowedRoutesNamespacesFrom as From,
    GatewayListenersAllowedRoutesNamespacesSelector as Selector, GatewayListenersTls,
    GatewayListenersTlsCertificateRefs, GatewayListenersTlsMode,
};
use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::gateway::{Gateway, ListenerEntry};
use holdfast_api::apis::kinds;
use holdfast_api::apis::scheme;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::section;
use holdfast_api::settings::Settings;
use holdfast_api::status::Condition;
use holdfast_envoy::encode::listener::TlsVersions;
use holdfast_envoy::features::client_certificate::ClientCertificates;
use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_envoy::features::stream::Stream;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_graph::{Node, ObjectKey, Role};

use crate::provision::READY_PORT;
use crate::reader::Reader;

/// Certificates of one listener; same limit as in the CRD.
pub const CERTIFICATES_MAX: usize = 64;
/// The kinds of route that an HTTP or HTTPS listener can serve.
pub(crate) const ROUTE_KINDS: [&str; 2] = [kinds::HTTP_ROUTE, kinds::GRPC_ROUTE];

/// The supported operators of label selectors.
const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];

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
    /// The TLS versions.
    pub(crate) tls_versions: TlsVersions,
    /// Whether it is a listener of HTTPProxies.
    pub proxies: bool,
    /// The usable certificates.
    pub certificates: Vec<ObjectKey>,
    /// The validation of client certificates.
    pub clients: Option<Arc<ClientCertificates>>,
    /// The destination of connections that are forwarded as TCP; unset where routes answer.
    pub stream: Option<Arc<Stream>>,
    /// Whether clients that name no host are served, too.
    pub(crate) to_nameless: bool,
    /// The certificates that exist and are unusable, each with the reason.
    pub broken_certificates: Vec<(ObjectKey, String)>,
    /// All certificates of a Gateway's or ListenerSet's listener that exist, usable or not, in the order written.
    pub(crate) named_certificates: Vec<ObjectKey>,
    /// The state of the listener.
    pub state: ListenerState,
    /// Whether another process or Gateway uses the port, so that connections reach that one.
    pub is_port_in_use: bool,
    /// The condition `Accepted`.
    pub accepted: Condition,
    /// The condition `Conflicted`.
    pub conflicted: Condition,
    /// The condition `ResolvedRefs`.
    pub resolved_refs: Condition,
}

impl ListenerPlan {
    /// Returns a listener that serves as far as its name, port and protocol show.
    fn unread(owner: &ObjectKey, field: &str, entry: &ListenerEntry) -> Self {
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
            tls_versions: TlsVersions::default(),
            proxies: false,
            declared_port: entry.written.as_ref().map_or(0, |listener| listener.port),
            protocol: entry.written.as_ref().map_or_else(|| "".into(), |listener| (&*listener.protocol).into()),
            https: false,
            hostname: None,
            hostname_fault: None,
            kinds: ROUTE_KINDS.into(),
            namespaces: Namespaces::Same,
            certificates: Vec::new(),
            clients: None,
            stream: None,
            to_nameless: false,
            broken_certificates: Vec::new(),
            named_certificates: Vec::new(),
            state: ListenerState::Serving,
            is_port_in_use: false,
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
        if self.https { TableName::Listener(self.name.clone()) } else { TableName::Port(self.port) }
    }

    /// Returns whether the listener serves clients that name no host, or a host that no HTTPProxy has.
    pub fn is_for_nameless(&self) -> bool {
        self.proxies && self.https && self.hostname.is_none()
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

    /// Returns whether routes answer its requests.
    pub(crate) fn has_routes(&self) -> bool {
        !self.https || (self.state == ListenerState::Serving && self.stream.is_none())
    }

    /// Returns the properties that routes depend on.
    pub fn context(&self) -> ListenerContext {
        ListenerContext { https: self.https, port: self.seen_port }
    }

    /// Returns whether the listener takes part with a hostname that only an earlier version claims.
    pub fn is_lent(&self) -> bool {
        self.hostname_fault.is_some() && self.state != ListenerState::Out
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

/// Returns the port that is bound for a port as written.
pub(crate) fn bound_port(port: i32, settings: &Settings) -> Option<u16> {
    let port = holdfast_check::number::port(port.into()).ok()?;
    if port < 1024 { port.checked_add(settings.low_port_shift) } else { Some(port) }
}

/// Returns why the port of a listener cannot be bound; `None` if it can.
fn unusable_port(declared: i32, bound: Option<u16>, settings: &Settings) -> Option<String> {
    match bound {
        None => {
            let fault = holdfast_check::number::port(declared.into()).err();
            Some(fault.map_or_else(|| format!("port {declared} cannot be bound"), |fault| fault.to_string()))
        }
        Some(READY_PORT) if settings.provision => {
            Some(format!("port {READY_PORT} is reserved for the readiness probe of the Envoy Pods; use another port"))
        }
        Some(_) => None,
    }
}

/// Translates a listener of a Gateway or ListenerSet.
pub(crate) fn plan(
    owner: &ObjectKey,
    field: &str,
    entry: &ListenerEntry,
    settings: &Settings,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) -> ListenerPlan {
    let mut plan = ListenerPlan::unread(owner, field, entry);
    let mut fault = |field: String, class: Class, reason: &'static str, message: String| {
        faults.push(Fault::new(owner, class, field, reason, message));
    };
    let Some(listener) = &entry.written else {
        // Decoding has already reported the fault.
        plan.reject(ListenerState::Out, "Invalid", "the listener could not be read");
        return plan;
    };
    if entry.name.contains('/') {
        let message = format!("the name of a listener must not contain a slash: {:?}", entry.name);
        plan.reject(ListenerState::Out, "Invalid", &message);
        fault(format!("{field}.name"), Class::Invalid, "Invalid", message);
        return plan;
    }
    plan.https = listener.protocol == "HTTPS";
    let port = bound_port(listener.port, settings);
    (plan.port, plan.seen_port) = (port.unwrap_or(0), port.unwrap_or(0));
    if !matches!(&*listener.protocol, "HTTP" | "HTTPS") {
        let message = format!("protocol {:?} is not supported: use HTTP or HTTPS", listener.protocol);
        plan.reject(ListenerState::Out, "UnsupportedProtocol", &message);
        plan.kinds.clear();
        fault(format!("{field}.protocol"), Class::Invalid, "UnsupportedProtocol", message);
        return plan;
    }
    if let Some(message) = unusable_port(listener.port, port, settings) {
        plan.reject(ListenerState::Out, "PortUnavailable", &message);
        fault(format!("{field}.port"), Class::Invalid, "PortUnavailable", message);
    }
    if let Some(hostname) = listener.hostname.as_deref().filter(|hostname| !hostname.is_empty()) {
        claim_hostname(owner, &mut plan, hostname, reader, &mut fault);
    }
    if !entry.whole && plan.state == ListenerState::Serving {
        // The claim of the listener is known; its allowed routes are not.
        plan.reject(
            ListenerState::Closed,
            "Invalid",
            "the listener could not be decoded completely; requests to its hosts are refused",
        );
        plan.namespaces = Namespaces::None;
        return plan;
    }
    allowed_routes(&mut plan, listener.allowed_routes.as_ref(), &mut fault);
    if plan.https {
        tls(owner, &mut plan, listener.tls.as_ref(), reader, &mut fault);
    } else if listener.tls.is_some() {
        fault(
            format!("{field}.tls"),
            Class::Ignored,
            "NotServed",
            "tls has no effect on a listener of protocol HTTP".into(),
        );
    }
    plan
}

/// Sets the hostname of a listener. A listener with an unusable hostname takes part with the hostname of the last valid
/// version, if there is one.
fn claim_hostname(
    owner: &ObjectKey,
    plan: &mut ListenerPlan,
    hostname: &str,
    reader: &mut Reader<'_>,
    fault: &mut impl FnMut(String, Class, &'static str, String),
) {
    let Err(error) = holdfast_check::host::hostname(hostname) else {
        plan.hostname = Some(hostname.into());
        return;
    };
    let message = error.to_string();
    fault(format!("{}.hostname", plan.field), Class::Invalid, "Invalid", message.clone());
    let state = plan.state;
    plan.reject(ListenerState::Out, "Invalid", &message);
    match reader.lent_hostname(owner, plan.section()) {
        Some(lent) => (plan.hostname, plan.state) = (lent, state),
        None => plan.hostname = Some(hostname.into()),
    }
    plan.hostname_fault = Some(message);
}

/// Checks the validation of client certificates that a Gateway requires for all its TLS listeners, including those that
/// ListenerSets add. The validation is not served: the listeners are closed.
pub(crate) fn check_client_validation(
    key: &ObjectKey,
    gateway: &Gateway,
    listeners: &mut [ListenerPlan],
    faults: &mut Vec<Fault>,
) {
    if gateway.tls.as_ref().is_none_or(|tls| tls.frontend.is_none()) {
        return;
    }
    for listener in listeners.iter_mut().filter(|l| l.https && l.state == ListenerState::Serving) {
        // Serving without the validation would open a listener that must be protected.
        let message = "validation of client certificates (spec.tls.frontend) is not supported; connections to the \
                       listener are refused";
        listener.reject(ListenerState::Closed, "UnsupportedValue", message);
        faults.push(Fault::new(key, Class::Invalid, "spec.tls.frontend", "UnsupportedValue", message));
    }
}

fn allowed_routes(
    plan: &mut ListenerPlan,
    allowed: Option<&GatewayListenersAllowedRoutes>,
    fault: &mut impl FnMut(String, Class, &'static str, String),
) {
    let field = format!("{}.allowedRoutes", plan.field);
    let Some(allowed) = allowed else { return };
    if let Some(kinds) = allowed.kinds.as_ref().filter(|kinds| !kinds.is_empty()) {
        plan.kinds.clear();
        for (index, kind) in kinds.iter().enumerate() {
            let group = kind.group.as_deref().unwrap_or(GROUP);
            match ROUTE_KINDS.into_iter().find(|known| group == GROUP && *known == kind.kind) {
                Some(known) => {
                    plan.kinds.insert(known);
                }
                None => {
                    let message = format!("routes of kind {group}/{} cannot attach to this listener", kind.kind);
                    plan.resolved_refs = Condition::new("ResolvedRefs", false, "InvalidRouteKinds", &message);
                    fault(format!("{field}.kinds[{index}]"), Class::Invalid, "InvalidRouteKinds", message);
                }
            }
        }
    }
    let Some(namespaces) = &allowed.namespaces else { return };
    plan.namespaces = match namespaces.from {
        Some(From::All) => Namespaces::All,
        Some(From::Same) | None => Namespaces::Same,
        Some(From::Selector) => selected(namespaces.selector.as_ref(), &field, "route", fault),
    };
}

/// Returns the namespaces of a selector below a field. `kind` is the kind of object that the selector is for.
pub(crate) fn selected(
    selector: Option<&Selector>,
    field: &str,
    kind: &str,
    fault: &mut impl FnMut(String, Class, &'static str, String),
) -> Namespaces {
    let Some(selector) = selector else {
        let message = format!("from is Selector, but no selector is set: no {kind} can attach");
        fault(format!("{field}.namespaces.selector"), Class::Invalid, "Invalid", message);
        return Namespaces::None;
    };
    for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
        if !OPERATORS.contains(&&*expression.operator) {
            let message = format!(
                "{:?} is not an operator, so that no namespace is selected; the operators are {}",
                expression.operator,
                OPERATORS.join(", ")
            );
            let field = format!("{field}.namespaces.selector.matchExpressions[{index}].operator");
            fault(field, Class::Invalid, "Invalid", message);
        }
    }
    Namespaces::Selected(Box::new(selector.clone()))
}

fn tls(
    owner: &ObjectKey,
    plan: &mut ListenerPlan,
    tls: Option<&GatewayListenersTls>,
    reader: &mut Reader<'_>,
    fault: &mut impl FnMut(String, Class, &'static str, String),
) {
    let field = format!("{}.tls", plan.field);
    for name in tls.and_then(|tls| tls.options.as_ref()).into_iter().flat_map(|options| options.keys()) {
        let message = format!("the TLS option {name:?} is not served by this version of Holdfast");
        fault(format!("{field}.options"), Class::Ignored, "NotServed", message);
    }
    let references = tls.and_then(|tls| tls.certificate_refs.as_deref()).unwrap_or_default();
    if tls.and_then(|tls| tls.mode.as_ref()) == Some(&GatewayListenersTlsMode::Passthrough) {
        let message = "mode Passthrough is not supported for listeners of protocol HTTPS";
        plan.reject(ListenerState::Closed, "UnsupportedValue", message);
        let message = format!("{message}; use Terminate");
        fault(format!("{field}.mode"), Class::Invalid, "UnsupportedValue", message);
        return;
    }
    if references.is_empty() {
        let message = "an HTTPS listener needs a certificate: set certificateRefs".to_owned();
        unresolved(plan, format!("{field}.certificateRefs"), Class::Invalid, "InvalidCertificateRef", message, fault);
    }
    if references.len() > CERTIFICATES_MAX {
        let message = format!("must have at most {CERTIFICATES_MAX} entries");
        unresolved(plan, format!("{field}.certificateRefs"), Class::Invalid, "InvalidCertificateRef", message, fault);
    }
    for (index, reference) in references.iter().enumerate().take(CERTIFICATES_MAX) {
        let field = at(&format!("{field}.certificateRefs"), index);
        read_certificate(owner, plan, field, reference, reader, fault);
    }
    if plan.certificates.is_empty() && plan.state == ListenerState::Serving {
        plan.state = ListenerState::Closed;
    }
}

/// Adds a certificate to a TLS listener, or reports why it cannot be used.
fn read_certificate(
    owner: &ObjectKey,
    plan: &mut ListenerPlan,
    field: String,
    reference: &GatewayListenersTlsCertificateRefs,
    reader: &mut Reader<'_>,
    fault: &mut impl FnMut(String, Class, &'static str, String),
) {
    let group = reference.group.as_deref().unwrap_or("");
    let kind = reference.kind.as_deref().unwrap_or(kinds::SECRET);
    if !group.is_empty() || kind != kinds::SECRET {
        let of = if group.is_empty() { "core" } else { group };
        let message = format!("certificateRefs must reference Secrets, not {of}/{kind}");
        unresolved(plan, field, Class::Invalid, "InvalidCertificateRef", message, fault);
        return;
    }
    let namespace = reference.namespace.as_deref().unwrap_or(&owner.namespace);
    let secret = scheme::secret_key(namespace, &reference.name);
    reader.edge(owner, section::listener(plan.section()), &secret, Role::Requires);
    if !reader.granted((&owner.group, &owner.kind, &owner.namespace), &secret) {
        let message = format!(
            "Secret {} is in another namespace, and no ReferenceGrant there allows {}s of {} to use it",
            secret.namespaced_name(),
            owner.kind,
            owner.namespace
        );
        unresolved(plan, field, Class::Referential, "RefNotPermitted", message, fault);
        return;
    }
    match certificate(&secret, reader) {
        // The order is that of the references: clients that name no host get the first certificate.
        Ok(()) if plan.certificates.contains(&secret) => {}
        Ok(()) => {
            plan.named_certificates.push(secret.clone());
            plan.certificates.push(secret);
        }
        Err((class, message)) => {
            if class == Class::Invalid {
                if !plan.named_certificates.contains(&secret) {
                    plan.named_certificates.push(secret.clone());
                }
                plan.broken_certificates.push((secret, message.clone()));
            }
            unresolved(plan, field, class, "InvalidCertificateRef", message, fault);
        }
    }
}

/// Reports a reference of a listener that cannot be resolved.
fn unresolved(
    plan: &mut ListenerPlan,
    field: String,
    class: Class,
    reason: &'static str,
    message: String,
    fault: &mut impl FnMut(String, Class, &'static str, String),
) {
    plan.resolved_refs = Condition::new("ResolvedRefs", false, reason, &message);
    fault(field, class, reason, message);
}

/// Checks that the Secret contains a certificate and a key that Envoy can use.
pub(crate) fn certificate(key: &ObjectKey, reader: &mut Reader<'_>) -> Result<(), (Class, String)> {
    let Some(object) = reader.object(key) else {
        return Err((Class::Referential, format!("Secret {} does not exist", key.namespaced_name())));
    };
    let Body::Secret(secret) = &object.body else {
        return Err((Class::Invalid, format!("{key} is no Secret")));
    };
    let data = |name: &str| {
        let message = || (Class::Invalid, format!("Secret {} has no {name}", key.namespaced_name()));
        secret.data.get(name).ok_or_else(message)
    };
    let (chain, private_key) = (data("tls.crt")?, data("tls.key")?);
    holdfast_check::certificate::check_pair(chain, private_key)
        .map(drop)
        .map_err(|fault| (Class::Invalid, format!("Secret {}: {fault}", key.namespaced_name())))
}

/// Returns whether the labels match a selector. An unknown operator matches nothing.
pub(crate) fn selects(selector: &Selector, labels: &BTreeMap<String, String>) -> bool {
    let by_label = selector.match_labels.iter().flatten().all(|(name, value)| labels.get(name) == Some(value));
    let by_expression = selector.match_expressions.iter().flatten().all(|expression| {
        let value = labels.get(&expression.key);
        let listed = |value: &String| expression.values.as_ref().is_some_and(|values| values.contains(value));
        match &*expression.operator {
            "In" => value.is_some_and(listed),
            "NotIn" => !value.is_some_and(listed),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    });
    by_label && by_expression
}
