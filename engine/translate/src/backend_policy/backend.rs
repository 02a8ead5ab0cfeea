//! Resolution of backend references: existence, grants, ports and protocols.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::kgateway::GROUP;
use holdfast_api::apis::kgateway::backend::Backend as WrittenBackend;
use holdfast_api::apis::kinds;
use holdfast_api::apis::scheme;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::Object;
use holdfast_envoy::model::port::Transport;
use holdfast_envoy::model::{BackendCluster, BackendProtocol, EndpointSource, ServicePort};
use holdfast_graph::{ObjectKey, Role};

use crate::backend_policy::{self, Target};
use crate::precedence::NOT_ENFORCED;
use crate::reader::Reader;

/// Values of `appProtocol` that require TLS. Without a policy, the certificate authorities of the backend are unknown.
const TLS_PROTOCOLS: [&str; 2] = ["https", "kubernetes.io/wss"];

/// A backend reference as a route writes it.
pub(crate) struct Reference<'a> {
    pub(crate) group: Option<&'a str>,
    pub(crate) kind: Option<&'a str>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) port: Option<i32>,
}

/// The origin of a reference: the route, the rule (`rules[1]`), the field of the reference, and its role in the graph.
pub(crate) struct Referrer<'a> {
    pub(crate) route: &'a ObjectKey,
    pub(crate) section: &'a str,
    pub(crate) field: &'a str,
    pub(crate) role: Role,
    /// The kind of traffic that is sent to the backend.
    pub(crate) sent: Sent,
}

/// Kind of traffic that is sent to a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Client requests.
    Requests,
    /// Connections of clients, which Envoy forwards as bytes.
    Connections,
    /// Connections of clients that are encrypted already: Envoy does not add TLS.
    Encrypted,
    /// Datagrams of clients.
    Datagrams,
    /// Mirrored requests, or requests that Envoy itself makes. Envoy does not check where these go.
    Others,
}

impl Sent {
    /// Returns the transport protocol.
    fn transport(self) -> Transport {
        match self {
            Sent::Datagrams => Transport::Udp,
            Sent::Requests | Sent::Connections | Sent::Encrypted | Sent::Others => Transport::Tcp,
        }
    }
}

/// A backend that cannot be used.
pub(crate) struct Refused {
    /// The fault to report.
    pub(crate) fault: Fault,
    /// The policy that closes the backend, if a policy is the reason.
    pub(crate) policy: Option<ObjectKey>,
}

/// Resolves a backend reference. A fault of class `Referential` means that the backend is missing: requests get status
/// 500.
///
/// <https://gateway-api.sigs.k8s.io/reference/spec/#httpbackendref>
pub(crate) fn resolve(
    referrer: &Referrer<'_>,
    reference: &Reference<'_>,
    reader: &mut Reader<'_>,
) -> Result<BackendCluster, Box<Refused>> {
    let namespace = reference.namespace.unwrap_or(&referrer.route.namespace);
    let key = match (reference.group.unwrap_or(""), reference.kind.unwrap_or(kinds::SERVICE)) {
        ("", kinds::SERVICE) => scheme::service_key(namespace, reference.name),
        (GROUP, kinds::BACKEND) if referrer.sent == Sent::Datagrams => {
            let message = "a Backend receives no datagrams: use a Service".to_owned();
            return Err(refused(referrer, ".kind", "InvalidKind", message));
        }
        (GROUP, kinds::BACKEND) => ObjectKey::new(GROUP, kinds::BACKEND, namespace, reference.name),
        (group, kind) => {
            let group = if group.is_empty() { "core" } else { group };
            let message = format!("backendRefs of kind {group}/{kind} are not supported: use a Service or a Backend");
            return Err(refused(referrer, ".kind", "InvalidKind", message));
        }
    };
    let object = found(referrer, &key, reader)?;
    match &object.body {
        Body::Service(_) => port_of_service(referrer, reference, object, reader),
        Body::Backend(backend) => named_otherwise(referrer, reference, object, backend, reader),
        _ => Err(refused(referrer, ".name", "BackendNotFound", format!("{key} is no {}", key.kind))),
    }
}

/// Returns the referenced object if the reference is granted.
fn found<'a>(
    referrer: &Referrer<'_>,
    key: &ObjectKey,
    reader: &mut Reader<'a>,
) -> Result<&'a Arc<Object>, Box<Refused>> {
    let route = referrer.route;
    reader.edge(route, referrer.section, key, referrer.role);
    let (kind, name) = (&key.kind, key.namespaced_name());
    if !reader.granted((&route.group, &route.kind, &route.namespace), key) {
        let message = format!(
            "{kind} {name} is in another namespace, and no ReferenceGrant there allows {}s of {} to use it",
            route.kind, route.namespace
        );
        return Err(refused(referrer, "", "RefNotPermitted", message));
    }
    reader.object(key).ok_or_else(|| {
        let message = format!("{kind} {name} {}", reader.lacking(key));
        let Refused { fault, policy } = *refused(referrer, ".name", "BackendNotFound", message);
        let cause = reader.is_unreadable(key).then(|| key.clone());
        Box::new(Refused { fault: fault.caused_by(cause), policy })
    })
}

/// Resolves a reference to a port of a Service.
fn port_of_service(
    referrer: &Referrer<'_>,
    reference: &Reference<'_>,
    object: &Object,
    reader: &mut Reader<'_>,
) -> Result<BackendCluster, Box<Refused>> {
    let key = &object.key;
    let fault = |below: &str, reason: &'static str, message: String| Err(refused(referrer, below, reason, message));
    let Body::Service(service) = &object.body else {
        return fault(".name", "BackendNotFound", format!("{key} is no Service"));
    };
    if service.external_name {
        let message = format!("Service {} is of type ExternalName, which is not supported", key.namespaced_name());
        return fault(".name", "UnsupportedValue", message);
    }
    let Some(number) = reference.port else {
        return fault(".port", "BackendNotFound", "port must be set for a Service".into());
    };
    let number = match holdfast_check::number::port(number.into()) {
        Ok(number) => number,
        Err(error) => return fault(".port", "BackendNotFound", error.to_string()),
    };
    let transport = referrer.sent.transport();
    let Some(port) = service.port(number, transport.name()) else {
        let message = format!("Service {} has no port {number}", key.namespaced_name());
        return fault(".port", "BackendNotFound", message);
    };
    if &*port.protocol != transport.name() {
        let (name, other) = (key.namespaced_name(), &port.protocol);
        let change = match transport {
            Transport::Tcp => "",
            Transport::Udp => ": use a port of the Service with protocol UDP",
        };
        let message = format!("port {number} of Service {name} is {other}, not {}{change}", transport.name());
        return fault(".port", "UnsupportedProtocol", message);
    }
    let h2c = &*referrer.route.kind == kinds::GRPC_ROUTE || matches!(&*port.app_protocol, "kubernetes.io/h2c" | "grpc");
    let protocol = if h2c { BackendProtocol::H2c } else { BackendProtocol::Http1 };
    let target = Target { key, labels: &object.metadata.labels, port: Some(&*port.name) };
    let upstream = match backend_policy::of(&target, protocol, referrer, reader) {
        Ok(upstream) => upstream,
        Err((policy, message)) => return Err(closed(referrer, policy, message)),
    };
    if transport == Transport::Udp
        && let Some(policy) = upstream.tls.as_ref().and_then(|_| upstream.origins().next())
    {
        let message = format!("{} {} requires TLS, which datagrams do not have", policy.kind, policy.namespaced_name());
        return Err(closed(referrer, policy.clone(), message));
    }
    let is_as_sent = matches!(referrer.sent, Sent::Encrypted | Sent::Datagrams);
    let may_lack_tls = upstream.tls.is_some() || is_as_sent;
    if TLS_PROTOCOLS.contains(&&*port.app_protocol) && !may_lack_tls {
        let message = format!(
            "port {number} of Service {} has appProtocol {:?}, and no policy states which certificates are trusted: attach a BackendTLSPolicy",
            key.namespaced_name(),
            port.app_protocol
        );
        return fault(".port", "UnsupportedProtocol", message);
    }
    let place = EndpointSource::Service(ServicePort { key: key.clone(), port: number, transport, health: None });
    Ok(BackendCluster { place, protocol, tuned: upstream.tuned() })
}

/// Resolves a reference to a Backend.
fn named_otherwise(
    referrer: &Referrer<'_>,
    reference: &Reference<'_>,
    object: &Object,
    backend: &WrittenBackend,
    reader: &mut Reader<'_>,
) -> Result<BackendCluster, Box<Refused>> {
    let key = &object.key;
    let fault = |below: &str, reason: &'static str, message: String| Err(refused(referrer, below, reason, message));
    if reference.port.is_some() {
        return fault(
            ".port",
            "UnsupportedValue",
            "port must not be set for a Backend, which defines its own ports".into(),
        );
    }
    let unserved = |why: String| format!("Backend {} cannot be served: {why}", key.namespaced_name());
    let served = match backend_policy::served(key, backend, referrer, reader) {
        Ok(served) => served,
        Err(why) => return Err(unusable(referrer, key, unserved(why))),
    };
    let is_grpc = &*referrer.route.kind == kinds::GRPC_ROUTE;
    let target = Target { key, labels: &object.metadata.labels, port: None };
    let protocol = if is_grpc { BackendProtocol::H2c } else { served.protocol() };
    let upstream = match backend_policy::of(&target, protocol, referrer, reader) {
        Ok(upstream) => upstream,
        Err((policy, message)) => return Err(closed(referrer, policy, message)),
    };
    let checks_by_name = reader.settings.allow_health_checks_by_name;
    let fits = served.fits(&upstream, protocol, referrer.sent == Sent::Requests, checks_by_name);
    match (fits, upstream.origins().next()) {
        (Ok(()), _) => {}
        (Err(why), Some(policy)) => return Err(closed(referrer, policy.clone(), unserved(why))),
        (Err(why), None) => return Err(unusable(referrer, key, unserved(why))),
    }
    let tuned = served.with(upstream, protocol).tuned();
    Ok(BackendCluster { place: served.place(), protocol, tuned })
}

fn refused(referrer: &Referrer<'_>, below: &str, reason: &'static str, message: String) -> Box<Refused> {
    let field = format!("{}{below}", referrer.field);
    let fault = Fault::new(referrer.route, Class::Referential, field, reason, message);
    Box::new(Refused { fault, policy: None })
}

fn closed(referrer: &Referrer<'_>, policy: ObjectKey, message: String) -> Box<Refused> {
    let Refused { fault, .. } = *refused(referrer, "", NOT_ENFORCED, message);
    Box::new(Refused { fault: fault.caused_by(Some(policy.clone())), policy: Some(policy) })
}

/// The referenced Backend exists, and cannot be served.
fn unusable(referrer: &Referrer<'_>, backend: &ObjectKey, message: String) -> Box<Refused> {
    let Refused { fault, policy } = *refused(referrer, ".name", "UnsupportedValue", message);
    Box::new(Refused { fault: fault.caused_by(Some(backend.clone())), policy })
}
