//! Names of resources and of their parts. All names are made here: from identities, never from an index that changes
//! when another object is added or removed.

use holdfast_api::apis::kinds;
use holdfast_graph::ObjectKey;

use crate::features::remote::Remote;
use crate::model::table::{Host, TableName};
use crate::model::{Backend, Place, Protocol, ServicePort};

/// The cluster name that is referenced and never defined: it receives the share of missing backends.
pub(crate) const MISSING_BACKEND: &str = "holdfast-missing-backend";

/// Returns the name of a cluster. A Service with two protocols, or with two sets of settings, has two clusters.
pub fn cluster(backend: &Backend) -> String {
    let protocol = match backend.protocol {
        Protocol::Http1 => "",
        Protocol::H2c => "/h2c",
    };
    let tuned = backend.tuned.as_ref().map(|tuned| format!("/{}", tuned.label())).unwrap_or_default();
    let place = match &backend.place {
        Place::Service(service) => endpoints(service),
        Place::Hosts(_) | Place::Anywhere(_) | Place::Function(_) => {
            let owner = backend.place.key();
            format!("backend/{}/{}", owner.namespace, owner.name)
        }
    };
    format!("{place}{protocol}{tuned}")
}

/// Returns the name of the cluster of an external service that Envoy itself calls. The cluster of an object is named
/// after the object, independent of its content.
pub fn remote(remote: &Remote) -> String {
    match remote {
        Remote::Backend(backend) => cluster(backend),
        Remote::Group(group) => self::group(&group.owner),
        Remote::Host(host) => {
            let label = host.label().map(|label| format!("/{label}")).unwrap_or_default();
            format!("dns/{}:{}{label}", host.host, host.port)
        }
    }
}

/// Returns the name of the cluster of a group, and of its endpoints if it has several Services.
pub fn group(owner: &ObjectKey) -> String {
    format!("extension/{}/{}", owner.namespace, owner.name)
}

/// Returns the name of the endpoints of a Service's port, independent of the protocol.
pub fn endpoints(service: &ServicePort) -> String {
    let health = service.health.map(|port| format!("/health-{port}")).unwrap_or_default();
    format!("service/{}/{}/{}{health}", service.key.namespace, service.key.name, service.port)
}

/// Returns the port of a Service from the name of its endpoints.
pub fn service_port(endpoints: &str) -> Option<ServicePort> {
    let (namespace, rest) = endpoints.strip_prefix("service/")?.split_once('/')?;
    let (name, rest) = rest.split_once('/')?;
    let (port, health) = match rest.split_once("/health-") {
        Some((port, health)) => (port, Some(health.parse().ok()?)),
        None => (rest, None),
    };
    Some(ServicePort { key: ObjectKey::new("", kinds::SERVICE, namespace, name), port: port.parse().ok()?, health })
}

/// Returns the name of a certificate.
pub fn secret(key: &ObjectKey) -> String {
    format!("secret/{}/{}", key.namespace, key.name)
}

/// Returns the name of the validation context for client certificates that an object configures.
pub(crate) fn client_trust(owner: &ObjectKey, label: &str) -> String {
    format!("clients/{}/{}/{label}", owner.namespace, owner.name)
}

/// Returns the name of the Secret with the OAuth2 client secret that an object configures.
pub(crate) fn login_client(owner: &ObjectKey) -> String {
    format!("login/{}/{}/client", owner.namespace, owner.name)
}

/// Returns the name of the Secret with the key for the cookies of logged-in users.
pub(crate) fn login_cookies(owner: &ObjectKey) -> String {
    format!("login/{}/{}/cookies", owner.namespace, owner.name)
}

/// Returns the name of the listener of a port.
pub fn listener(port: u16) -> String {
    format!("listener/{port}")
}

/// Returns the name of a route configuration: one for each plain port, one for each HTTPS listener.
pub fn route_configuration(table: &TableName) -> String {
    match table {
        TableName::Port(port) => format!("http/{port}"),
        TableName::Listener(name) => format!("https/{name}"),
    }
}

/// Returns the name of the filter chain of a listener that forwards connections.
pub fn stream(listener: &str) -> String {
    format!("stream/{listener}")
}

/// Returns the name of the filter chain of a listener that refuses connections.
pub fn refusal(listener: &str) -> String {
    format!("refuse/{listener}")
}

/// Checks whether a route configuration is for requests without TLS, by its name.
pub fn is_plain(route_configuration: &str) -> bool {
    route_configuration.starts_with("http/")
}

/// Returns the name of a virtual host.
pub fn virtual_host(host: &Host) -> String {
    host.domain().to_owned()
}

/// Returns the name of a route of an HTTPProxy, from its position there; `instance` counts earlier occurrences of the
/// HTTPProxy in the include tree.
pub fn proxy_route(key: &ObjectKey, section: &str, instance: usize, implicit: bool) -> String {
    let again = if instance > 0 { format!("/{instance}") } else { String::new() };
    let implicit = if implicit { "/implicit" } else { "" };
    format!("httpproxy/{}/{}/{section}{again}{implicit}", key.namespace, key.name)
}

/// Returns the name of a route: one match of one rule, by the rule's name if it has one.
pub fn route(key: &ObjectKey, rule: usize, rule_name: Option<&str>, entry: usize) -> String {
    let kind = key.kind.to_ascii_lowercase();
    let prefix = format!("{kind}/{}/{}", key.namespace, key.name);
    match rule_name {
        Some(name) => format!("{prefix}/{name}/{entry}"),
        None => format!("{prefix}/{rule}/{entry}"),
    }
}
