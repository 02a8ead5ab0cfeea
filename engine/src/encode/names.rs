//! Names of resources and of their parts. Only here are names made: from identities, never from an index that shifts
//! when another object comes or goes.

use holdfast_graph::ObjectKey;

use crate::features::remote::Remote;
use crate::model::{Backend, Place, Protocol, ServicePort};
use crate::translate::table::{Host, TableName};

/// The one cluster that is named and never defined: the share of back ends that do not exist.
pub(crate) const MISSING_BACKEND: &str = "holdfast-missing-backend";

/// A cluster. A Service spoken to in two protocols, or otherwise in two ways, is two clusters.
pub(crate) fn cluster(backend: &Backend) -> String {
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

/// The cluster of somebody whom Envoy itself asks. One of an object is called after it, whatever it consists of.
pub(crate) fn remote(remote: &Remote) -> String {
    match remote {
        Remote::Backend(backend) => cluster(backend),
        Remote::Group(group) => self::group(&group.owner),
        Remote::Host(host) => {
            let label = host.label().map(|label| format!("/{label}")).unwrap_or_default();
            format!("dns/{}:{}{label}", host.host, host.port)
        }
    }
}

/// The cluster of a group, and its endpoints where it has several Services.
pub(crate) fn group(owner: &ObjectKey) -> String {
    format!("extension/{}/{}", owner.namespace, owner.name)
}

/// The endpoints of a Service's port, whatever protocol they are spoken to in.
pub(crate) fn endpoints(service: &ServicePort) -> String {
    let health = service.health.map(|port| format!("/health-{port}")).unwrap_or_default();
    format!("service/{}/{}/{}{health}", service.key.namespace, service.key.name, service.port)
}

/// The port of a Service that endpoints of this name are of.
pub(crate) fn service_port(endpoints: &str) -> Option<ServicePort> {
    let (namespace, rest) = endpoints.strip_prefix("service/")?.split_once('/')?;
    let (name, rest) = rest.split_once('/')?;
    let (port, health) = match rest.split_once("/health-") {
        Some((port, health)) => (port, Some(health.parse().ok()?)),
        None => (rest, None),
    };
    Some(ServicePort { key: ObjectKey::new("", "Service", namespace, name), port: port.parse().ok()?, health })
}

/// A certificate.
pub(crate) fn secret(key: &ObjectKey) -> String {
    format!("secret/{}/{}", key.namespace, key.name)
}

/// What certificates of clients are checked against, as an object asks for it.
pub(crate) fn client_trust(owner: &ObjectKey, label: &str) -> String {
    format!("clients/{}/{}/{label}", owner.namespace, owner.name)
}

/// The secret by which a client is known where users log in, as an object asks for it.
pub(crate) fn login_client(owner: &ObjectKey) -> String {
    format!("login/{}/{}/client", owner.namespace, owner.name)
}

/// The key of the cookies of users who logged in.
pub(crate) fn login_cookies(owner: &ObjectKey) -> String {
    format!("login/{}/{}/cookies", owner.namespace, owner.name)
}

/// The listener of a port.
pub(crate) fn listener(port: u16) -> String {
    format!("listener/{port}")
}

/// A route configuration: one for each plain port, one for each HTTPS listener.
pub(crate) fn route_configuration(table: &TableName) -> String {
    match table {
        TableName::Port(port) => format!("http/{port}"),
        TableName::Listener(name) => format!("https/{name}"),
    }
}

/// The filter chain of a listener that passes connections on.
pub(crate) fn stream(listener: &str) -> String {
    format!("stream/{listener}")
}

/// The filter chain of a listener that refuses connections.
pub(crate) fn refusal(listener: &str) -> String {
    format!("refuse/{listener}")
}

/// Is it the name of a route configuration for requests without TLS?
pub(crate) fn is_plain(route_configuration: &str) -> bool {
    route_configuration.starts_with("http/")
}

/// A virtual host.
pub(crate) fn virtual_host(host: &Host) -> String {
    host.domain().to_owned()
}

/// A route of an HTTPProxy, by its place there; `instance` counts how often the proxy came before in the tree.
pub(crate) fn proxy_route(key: &ObjectKey, section: &str, instance: usize, implicit: bool) -> String {
    let again = if instance > 0 { format!("/{instance}") } else { String::new() };
    let implicit = if implicit { "/implicit" } else { "" };
    format!("httpproxy/{}/{}/{section}{again}{implicit}", key.namespace, key.name)
}

/// A route: one match of one rule, by the rule's name where it has one.
pub(crate) fn route(key: &ObjectKey, rule: usize, rule_name: Option<&str>, entry: usize) -> String {
    let kind = key.kind.to_ascii_lowercase();
    let prefix = format!("{kind}/{}/{}", key.namespace, key.name);
    match rule_name {
        Some(name) => format!("{prefix}/{name}/{entry}"),
        None => format!("{prefix}/{rule}/{entry}"),
    }
}
