//! References to back ends, resolved: existence, grants, ports and protocols.

use holdfast_graph::{ObjectKey, Role};

use super::cluster_policy::{self, Target};
use super::reader::Reader;
use super::rule::NOT_ENFORCED;
use crate::apis::Body;
use crate::apis::kgateway::GROUP;
use crate::apis::scheme;
use crate::check;
use crate::fault::{Class, Fault};
use crate::model::{Backend, Place, Protocol, ServicePort};

/// Values of `appProtocol` that ask for TLS: without a policy nobody says whom to trust.
const TLS_PROTOCOLS: [&str; 2] = ["https", "kubernetes.io/wss"];

/// A reference to a back end as a route writes it.
pub(super) struct Reference<'a> {
    pub(super) group: Option<&'a str>,
    pub(super) kind: Option<&'a str>,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: &'a str,
    pub(super) port: Option<i32>,
}

/// Who refers: the route, the rule (`rules[1]`), the field of the reference, and the protocol that its kind asks for.
pub(super) struct Referrer<'a> {
    pub(super) route: &'a ObjectKey,
    pub(super) section: &'a str,
    pub(super) field: &'a str,
    pub(super) role: Role,
}

/// A back end that is not used.
pub(super) struct Refused {
    /// What is told of it.
    pub(super) fault: Fault,
    /// The policy that closes it, where it is one.
    pub(super) policy: Option<ObjectKey>,
}

/// Finds a back end. A fault of class `Referential` means a back end that is not there: requests get 500.
///
/// <https://gateway-api.sigs.k8s.io/reference/spec/#httpbackendref>
pub(super) fn resolve(
    referrer: &Referrer<'_>,
    reference: &Reference<'_>,
    reader: &mut Reader<'_>,
) -> Result<Backend, Box<Refused>> {
    let route = referrer.route;
    let fault = |below: &str, reason: &'static str, message: String| Err(refused(referrer, below, reason, message));
    let (group, kind) = (reference.group.unwrap_or(""), reference.kind.unwrap_or("Service"));
    if (group, kind) == (GROUP, "Backend") {
        return named_hosts(referrer, reference, reader);
    }
    if !group.is_empty() || kind != "Service" {
        let group = if group.is_empty() { "core" } else { group };
        return fault(".kind", "InvalidKind", format!("back ends of kind {group}/{kind} are not served; Services are"));
    }
    let namespace = reference.namespace.unwrap_or(&route.namespace);
    let key = scheme::service_key(namespace, reference.name);
    reader.edge(route, referrer.section, &key, referrer.role);
    if !reader.granted((&route.group, &route.kind, &route.namespace), &key) {
        let message = format!(
            "Service {} is in another namespace, and no ReferenceGrant there allows {}s of {} to use it",
            key.namespaced_name(),
            route.kind,
            route.namespace
        );
        return fault("", "RefNotPermitted", message);
    }
    let Some(object) = reader.object(&key) else {
        return fault(".name", "BackendNotFound", format!("Service {} does not exist", key.namespaced_name()));
    };
    let Body::Service(service) = &object.body else {
        return fault(".name", "BackendNotFound", format!("{key} is no Service"));
    };
    if service.external_name {
        let message = format!("Service {} is of type ExternalName, which is not served", key.namespaced_name());
        return fault(".name", "UnsupportedValue", message);
    }
    let Some(number) = reference.port else {
        return fault(".port", "BackendNotFound", "a port is needed for a Service".into());
    };
    let number = match check::number::port(number.into()) {
        Ok(number) => number,
        Err(error) => return fault(".port", "BackendNotFound", error.to_string()),
    };
    let Some(port) = service.port(number) else {
        let message = format!("Service {} has no port {number}", key.namespaced_name());
        return fault(".port", "BackendNotFound", message);
    };
    if &*port.protocol != "TCP" {
        let message = format!("port {number} of Service {} is {}, not TCP", key.namespaced_name(), port.protocol);
        return fault(".port", "UnsupportedProtocol", message);
    }
    let h2c = &*route.kind == "GRPCRoute" || matches!(&*port.app_protocol, "kubernetes.io/h2c" | "grpc");
    let protocol = if h2c { Protocol::H2c } else { Protocol::Http1 };
    let target = Target { key: &key, labels: &object.metadata.labels, port: Some(&*port.name) };
    let upstream = match cluster_policy::of(&target, protocol, referrer, reader) {
        Ok(upstream) => upstream,
        Err((policy, message)) => return Err(closed(referrer, policy, message)),
    };
    if TLS_PROTOCOLS.contains(&&*port.app_protocol) && upstream.tls.is_none() {
        let message = format!(
            "port {number} of Service {} has appProtocol {:?}, and no policy says whom to trust behind it: attach a \
             BackendTLSPolicy",
            key.namespaced_name(),
            port.app_protocol
        );
        return fault(".port", "UnsupportedProtocol", message);
    }
    let place = Place::Service(ServicePort { key, port: number, health: None });
    Ok(Backend { place, protocol, tuned: upstream.tuned() })
}

/// Finds the hosts that a Backend names.
fn named_hosts(
    referrer: &Referrer<'_>,
    reference: &Reference<'_>,
    reader: &mut Reader<'_>,
) -> Result<Backend, Box<Refused>> {
    let route = referrer.route;
    let fault = |below: &str, reason: &'static str, message: String| Err(refused(referrer, below, reason, message));
    let namespace = reference.namespace.unwrap_or(&route.namespace);
    let key = ObjectKey::new(GROUP, "Backend", namespace, reference.name);
    reader.edge(route, referrer.section, &key, referrer.role);
    if !reader.granted((&route.group, &route.kind, &route.namespace), &key) {
        let message = format!(
            "Backend {} is in another namespace, and no ReferenceGrant there allows {}s of {} to use it",
            key.namespaced_name(),
            route.kind,
            route.namespace
        );
        return fault("", "RefNotPermitted", message);
    }
    let Some(object) = reader.object(&key) else {
        return fault(".name", "BackendNotFound", format!("Backend {} does not exist", key.namespaced_name()));
    };
    let Body::Backend(backend) = &object.body else {
        return fault(".name", "BackendNotFound", format!("{key} is no Backend"));
    };
    if reference.port.is_some() {
        return fault(".port", "UnsupportedValue", "a Backend has its own ports: leave port out".into());
    }
    let (hosts, protocol) = match cluster_policy::hosts(&key, backend, reader.settings.allow_loopback_backends) {
        Ok(found) => found,
        Err(why) => {
            let message = format!("Backend {} cannot be served: {why}", key.namespaced_name());
            return fault(".name", "UnsupportedValue", message);
        }
    };
    let protocol = if &*route.kind == "GRPCRoute" { Protocol::H2c } else { protocol };
    let target = Target { key: &key, labels: &object.metadata.labels, port: None };
    match cluster_policy::of(&target, protocol, referrer, reader) {
        Ok(upstream) => Ok(Backend { place: Place::Hosts(hosts), protocol, tuned: upstream.tuned() }),
        Err((policy, message)) => Err(closed(referrer, policy, message)),
    }
}

fn refused(referrer: &Referrer<'_>, below: &str, reason: &'static str, message: String) -> Box<Refused> {
    let field = format!("{}{below}", referrer.field);
    let fault = Fault::new(referrer.route, Class::Referential, field, reason, message);
    Box::new(Refused { fault, policy: None })
}

fn closed(referrer: &Referrer<'_>, policy: ObjectKey, message: String) -> Box<Refused> {
    Box::new(Refused { policy: Some(policy), ..*refused(referrer, "", NOT_ENFORCED, message) })
}
