//! References to back ends, resolved: existence, grants, ports and protocols.

use holdfast_graph::{ObjectKey, Role};

use super::reader::Reader;
use crate::apis::Body;
use crate::apis::scheme;
use crate::check;
use crate::fault::{Class, Fault};
use crate::model::{Backend, Protocol, ServicePort};

/// Values of `appProtocol` that ask for TLS, in which back ends are not spoken to.
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

/// Is there a policy for the back end that cannot be enforced? Then nobody gets there.
fn unenforceable(
    service: &ObjectKey,
    labels: &std::collections::BTreeMap<String, String>,
    route: &ObjectKey,
    section: &str,
    reader: &mut Reader<'_>,
) -> Option<String> {
    let policies = reader.attached(service, labels);
    let (policy, _) = policies.into_iter().find(|(key, _)| &*key.kind == "BackendConfigPolicy")?;
    reader.edge(route, section, &policy, Role::Requires);
    let Body::BackendConfigPolicy(written) = &reader.object(&policy)?.body else { return None };
    let says_nothing =
        written.unread.is_empty() && written.spec.as_ref().is_some_and(|spec| spec.set().next().is_none());
    (!says_nothing).then(|| {
        format!(
            "BackendConfigPolicy {} for Service {} cannot be enforced",
            policy.namespaced_name(),
            service.namespaced_name()
        )
    })
}

/// Finds a back end. A fault of class `Referential` means a back end that is not there: requests get 500.
///
/// <https://gateway-api.sigs.k8s.io/reference/spec/#httpbackendref>
pub(super) fn resolve(
    referrer: &Referrer<'_>,
    reference: &Reference<'_>,
    reader: &mut Reader<'_>,
) -> Result<Backend, Box<Fault>> {
    let route = referrer.route;
    let fault = |below: &str, reason: &'static str, message: String| {
        let field = format!("{}{below}", referrer.field);
        Err(Box::new(Fault::new(route, Class::Referential, field, reason, message)))
    };
    let (group, kind) = (reference.group.unwrap_or(""), reference.kind.unwrap_or("Service"));
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
    if let Some(message) = unenforceable(&key, &object.metadata.labels, route, referrer.section, reader) {
        return fault("", "PolicyNotEnforced", message);
    }
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
    if TLS_PROTOCOLS.contains(&&*port.app_protocol) {
        let message = format!(
            "port {number} of Service {} has appProtocol {:?}: back ends behind TLS are not served",
            key.namespaced_name(),
            port.app_protocol
        );
        return fault(".port", "UnsupportedProtocol", message);
    }
    let h2c = &*route.kind == "GRPCRoute" || matches!(&*port.app_protocol, "kubernetes.io/h2c" | "grpc");
    let protocol = if h2c { Protocol::H2c } else { Protocol::Http1 };
    Ok(Backend { service: ServicePort { key, port: number, health: None }, protocol, tuned: None })
}
