//! Names of resources and of their parts. All names are made here: from identities, never from an index that changes
//! when another object is added or removed. A name is parsed only here, beside the function that makes it.

use holdfast_api::apis::{contour, gateway, kgateway, kinds, scheme};
use holdfast_api::section::ObjectSection;
use holdfast_graph::ObjectKey;

use crate::features::remote::Remote;
use crate::model::port::{BoundPort, Transport};
use crate::model::table::{Host, TableName};
use crate::model::{BackendCluster, BackendProtocol, EndpointSource, ServicePort};

/// The cluster name that is referenced and never defined: it receives the share of missing backends.
pub(crate) const MISSING_BACKEND: &str = "holdfast-missing-backend";

/// Groups and kinds of the objects that have routes.
const OBJECTS_WITH_ROUTES: [(&str, &str); 3] =
    [(gateway::GROUP, kinds::HTTP_ROUTE), (gateway::GROUP, kinds::GRPC_ROUTE), (contour::GROUP, kinds::HTTP_PROXY)];

/// Returns the name of a cluster. A Service with two protocols, or with two sets of settings, has two clusters.
pub fn cluster(backend: &BackendCluster) -> String {
    let protocol = match backend.protocol {
        BackendProtocol::Http1 => "",
        BackendProtocol::H2c => "/h2c",
    };
    let tuned = backend.tuned.as_ref().map(|tuned| format!("/{}", tuned.label())).unwrap_or_default();
    let place = match &backend.place {
        EndpointSource::Service(service) => endpoints(service),
        EndpointSource::Hosts(_) | EndpointSource::Anywhere(_) | EndpointSource::Function(_) => {
            of_backend(backend.place.key())
        }
    };
    format!("{place}{protocol}{tuned}")
}

/// Returns the name of the cluster of a Backend with HTTP/1 and the usual settings.
fn of_backend(key: &ObjectKey) -> String {
    format!("backend/{}/{}", key.namespace, key.name)
}

/// Returns the Service with its port, or the Backend, from the name of its cluster.
pub fn backend(cluster: &str) -> Option<(ObjectKey, Option<u16>)> {
    let mut parts = cluster.split('/');
    match (parts.next()?, parts.next()?, parts.next()?) {
        ("service", namespace, name) => Some((scheme::service_key(namespace, name), parts.next()?.parse().ok())),
        ("backend", namespace, name) => Some((ObjectKey::new(kgateway::GROUP, kinds::BACKEND, namespace, name), None)),
        _ => None,
    }
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

/// What follows the number of a UDP port in names.
const UDP: &str = "/udp";

/// Returns what follows the number of a port in names.
fn of_transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "",
        Transport::Udp => UDP,
    }
}

/// Returns the name of the endpoints of a Service's port, independent of the protocol above TCP.
pub fn endpoints(service: &ServicePort) -> String {
    let health = service.health.map(|port| format!("/health-{port}")).unwrap_or_default();
    let transport = of_transport(service.transport);
    format!("service/{}/{}/{}{transport}{health}", service.key.namespace, service.key.name, service.port)
}

/// Returns the port of a Service from the name of its endpoints.
pub fn service_port(endpoints: &str) -> Option<ServicePort> {
    let (namespace, rest) = endpoints.strip_prefix("service/")?.split_once('/')?;
    let (name, rest) = rest.split_once('/')?;
    let (port, health) = match rest.split_once("/health-") {
        Some((port, health)) => (port, Some(health.parse().ok()?)),
        None => (rest, None),
    };
    let (port, transport) = match port.strip_suffix(UDP) {
        Some(port) => (port, Transport::Udp),
        None => (port, Transport::Tcp),
    };
    Some(ServicePort { key: scheme::service_key(namespace, name), port: port.parse().ok()?, transport, health })
}

/// Returns the name of a certificate.
pub fn secret(key: &ObjectKey) -> String {
    format!("secret/{}/{}", key.namespace, key.name)
}

/// Returns the name of the validation context for client certificates that an object configures.
///
/// The name follows those of all certificates in the order in which a response is filled. Envoy makes the TLS context
/// of a listener when the last of its Secrets arrives, and its refusal is about that Secret: after the certificate of
/// the listener was accepted, it can only be the validation context.
pub(crate) fn client_trust(owner: &ObjectKey, label: &str) -> String {
    format!("validation/{}/{}/{label}", owner.namespace, owner.name)
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
pub fn listener(port: BoundPort) -> String {
    format!("listener/{}{}", port.number, of_transport(port.transport))
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

/// Returns the name of one host of a listener that forwards connections by the server name.
pub fn server(listener: &str, host: &Host) -> String {
    format!("{listener}/{}", host.domain())
}

/// Returns the name of the filter chain of a listener that refuses connections.
pub fn refusal(listener: &str) -> String {
    format!("refuse/{listener}")
}

/// Returns the name of a filter chain that was closed while its listener is held.
pub fn closed_chain(chain: &str) -> String {
    format!("closed/{chain}")
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
    format!("{}/{section}{again}{implicit}", routes_of(key))
}

/// Returns the name of a route: one match of one rule, by the rule's name if it has one.
pub fn route(key: &ObjectKey, rule: usize, rule_name: Option<&str>, entry: usize) -> String {
    match rule_name {
        Some(name) => format!("{}/{name}/{entry}", routes_of(key)),
        None => format!("{}/{rule}/{entry}", routes_of(key)),
    }
}

/// Returns the name of the session of a rule that does not set one. It is the same as long as the rule keeps its name,
/// or its position where it has no name, and clients learn nothing about the route from it.
pub fn session(key: &ObjectKey, rule: usize, rule_name: Option<&str>) -> String {
    let hash = blake3::hash(route(key, rule, rule_name, 0).as_bytes()).to_hex();
    format!("session-{}", &hash[..16])
}

/// The start of the part of a route's name with the backend of its share of the requests.
const BACKEND: &str = "backend-";
/// The position of this part, after those of the object, the rule and the match.
const SHARE_PART: usize = 5;

/// Returns the name of a route with the share of the requests that goes to one of the backends of its rule.
pub fn route_share(route: &str, backend: usize) -> String {
    format!("{route}/{BACKEND}{backend}")
}

/// Returns the name of a route without the backend of its share of the requests.
pub fn without_share(route: &str) -> String {
    let parts = route.split('/').enumerate().filter(|(index, part)| *index != SHARE_PART || !part.starts_with(BACKEND));
    parts.map(|(_, part)| part).collect::<Vec<_>>().join("/")
}

/// Returns the name of a route of a rule with the same name as an earlier rule.
pub fn repeated_route(route: &str, rule: usize, entry: usize) -> String {
    format!("{route}/again-{rule}-{entry}")
}

/// Returns the name of a route below a rule of another object that delegates to it.
pub fn delegated_route(route: &str, above: &ObjectKey, rule: usize) -> String {
    format!("{route}/below/{}/{}/{rule}", above.namespace, above.name)
}

/// Returns the common part of the names of an object's routes.
fn routes_of(key: &ObjectKey) -> String {
    format!("{}/{}/{}", key.kind.to_ascii_lowercase(), key.namespace, key.name)
}

/// Returns the object of a route, from the name of the route.
pub fn object_of_route(route: &str) -> Option<ObjectKey> {
    let mut parts = route.split('/');
    let prefix = parts.next()?;
    let (group, kind) = OBJECTS_WITH_ROUTES.into_iter().find(|(_, kind)| kind.to_ascii_lowercase() == prefix)?;
    Some(ObjectKey::new(group, kind, parts.next()?, parts.next()?))
}

/// Returns the rule of a route, from the name of the route: `rules[1]` or the rule's name, or `routes[1]` of an
/// HTTPProxy.
pub fn rule_of_route(route: &str) -> Option<String> {
    object_of_route(route)?;
    let parts: Vec<&str> = route.split('/').collect();
    let is_share = parts.get(SHARE_PART).is_some_and(|part| part.starts_with(BACKEND));
    let again =
        parts.get(SHARE_PART + usize::from(is_share)).and_then(|part| part.strip_prefix("again-")?.split('-').next());
    let rule = again.or_else(|| parts.get(3).copied())?;
    Some(rule.parse().map_or_else(|_| rule.to_owned(), |index| ObjectSection::Rule(index).to_string()))
}

/// Returns the name of a filter that a GatewayExtension or a policy configures. A filter that fails open has another
/// name than one that fails closed.
pub fn extension_filter(filter: &str, owner: &ObjectKey, fail_open: bool) -> String {
    owned_filter(&format!("{filter}/extension"), owner, fail_open)
}

/// Returns the name of an authorization filter of HTTPProxies.
pub fn proxy_auth_filter(service: &ObjectKey, fail_open: bool) -> String {
    owned_filter("ext_auth", service, fail_open)
}

/// Returns the name of an authorization filter of HTTPRoutes, from a digest of its settings.
pub fn external_auth_filter(settings: &str) -> String {
    format!("{EXTERNAL_AUTH}/{settings}")
}

/// Returns the name of the JWT filter of an HTTPProxy.
pub fn proxy_jwt_filter(proxy: &ObjectKey) -> String {
    owned_filter("jwt", proxy, false)
}

/// The kind of the authorization filters of HTTPRoutes; see [`kind_of_filter`].
pub const EXTERNAL_AUTH: &str = "external_auth";

fn owned_filter(filter: &str, owner: &ObjectKey, fail_open: bool) -> String {
    let open = if fail_open { "/open" } else { "" };
    format!("{filter}/{}/{}{open}", owner.namespace, owner.name)
}

/// Returns the kind of a filter, from its name: the name without the object that configures the filter.
pub fn kind_of_filter(filter: &str) -> &str {
    match filter.split_once('/') {
        Some((kind, _)) if !filter.starts_with("holdfast.dev/") => kind,
        _ => filter,
    }
}

/// Returns the name of a slot of the probe for a route configuration.
pub fn probe_routes(slot: usize) -> String {
    format!("probe/route/{slot}")
}

/// Returns the name of a slot of the probe for a certificate.
pub fn probe_certificate(slot: usize) -> String {
    format!("probe/certificate/{slot}")
}

/// The start of the names of the probe's slots for certificate authorities.
const PROBE_AUTHORITIES: &str = "probe/authorities/";

/// Returns the name of a slot of the probe for certificate authorities.
pub fn probe_authorities(slot: usize) -> String {
    format!("{PROBE_AUTHORITIES}{slot}")
}

/// Checks whether a slot of the probe is for certificate authorities, by its name.
pub fn is_probe_authorities(slot: &str) -> bool {
    slot.starts_with(PROBE_AUTHORITIES)
}

/// Returns the name of a cluster that is tried on the probe.
pub fn probe_cluster(slot: usize) -> String {
    format!("probe/cluster/{slot}")
}

/// The name of each listener that is tried on the probe. They are tried one after the other: two at a time may use the
/// same address.
pub const PROBE_LISTENER: &str = "probe/listener";
/// The listener of the probe with the slots for route configurations.
pub const PROBE_ROUTES_LISTENER: &str = "probe/routes";
/// The listener of the probe with the slots for certificates.
pub const PROBE_CERTIFICATES_LISTENER: &str = "probe/certificates";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::filters::Filter;

    fn key(group: &str, kind: &str) -> ObjectKey {
        ObjectKey::new(group, kind, "shop", "cart")
    }

    #[test]
    fn the_object_of_a_route_is_in_its_name() {
        for (group, kind) in OBJECTS_WITH_ROUTES {
            let key = key(group, kind);
            let first = route(&key, 0, None, 1);
            let again = repeated_route(&first, 2, 0);
            let share = repeated_route(&route_share(&first, 1), 2, 0);
            let names =
                [route(&key, 1, Some("named"), 0), proxy_route(&key, "routes[0]", 1, true), first, again, share];
            for name in names {
                assert_eq!(object_of_route(&name), Some(key.clone()), "{name}");
            }
        }
        assert_eq!(object_of_route("pulse"), None);
        assert_eq!(object_of_route("tcproute/shop/cart/0/0"), None);
    }

    #[test]
    fn the_rule_of_a_route_is_in_its_name() {
        let key = key(gateway::GROUP, kinds::HTTP_ROUTE);
        let (numbered, named) = (route(&key, 2, None, 1), route(&key, 2, Some("named"), 0));
        let again = repeated_route(&named, 3, 0);
        let proxy = proxy_route(&self::key(contour::GROUP, kinds::HTTP_PROXY), "routes[1]", 1, true);
        let (share, of_again) = (route_share(&named, 1), repeated_route(&route_share(&named, 1), 3, 0));
        let names = [(numbered, "rules[2]"), (named, "named"), (again, "rules[3]"), (proxy, "routes[1]")];
        let names = names.into_iter().chain([(share, "named"), (of_again, "rules[3]")]);
        for (name, rule) in names {
            assert_eq!(rule_of_route(&name).as_deref(), Some(rule), "{name}");
        }
        assert_eq!(rule_of_route("pulse"), None);
    }

    #[test]
    fn the_shares_of_a_match_have_its_name_in_common() {
        let whole = route(&key(gateway::GROUP, kinds::HTTP_ROUTE), 2, Some("backend-1"), 0);
        let above = key(gateway::GROUP, kinds::HTTP_ROUTE);
        for name in [whole.clone(), repeated_route(&whole, 3, 0), delegated_route(&whole, &above, 0)] {
            assert_eq!(without_share(&name), name);
        }
        let share = route_share(&whole, 4);
        assert_eq!(without_share(&share), whole);
        assert_eq!(without_share(&delegated_route(&share, &above, 0)), delegated_route(&whole, &above, 0));
    }

    #[test]
    fn the_backend_of_a_cluster_is_in_its_name() {
        let service =
            |transport, health| ServicePort { key: scheme::service_key("shop", "cart"), port: 80, transport, health };
        for (service, protocol) in [
            (service(Transport::Tcp, None), BackendProtocol::Http1),
            (service(Transport::Tcp, Some(81)), BackendProtocol::H2c),
            (service(Transport::Udp, None), BackendProtocol::Http1),
            (service(Transport::Udp, Some(81)), BackendProtocol::Http1),
        ] {
            let place = EndpointSource::Service(service.clone());
            let name = cluster(&BackendCluster { place, protocol, tuned: None });
            assert_eq!(backend(&name), Some((scheme::service_key("shop", "cart"), Some(80))), "{name}");
            assert_eq!(service_port(&endpoints(&service)), Some(service));
        }
        let written = key(kgateway::GROUP, kinds::BACKEND);
        assert_eq!(backend(&format!("{}/h2c", of_backend(&written))), Some((written, None)));
        assert_eq!(backend(&group(&key("", "ExtensionService"))), None);
        assert_eq!(backend(MISSING_BACKEND), None);
    }

    #[test]
    fn the_kind_of_a_filter_is_in_its_name() {
        let owner = key("", "Owner");
        assert_eq!(kind_of_filter(&extension_filter("ratelimit", &owner, true)), "ratelimit");
        assert_eq!(kind_of_filter(&extension_filter("oauth2/tokens", &owner, false)), "oauth2");
        assert_eq!(kind_of_filter(&proxy_auth_filter(&owner, true)), "ext_auth");
        assert_eq!(kind_of_filter(&external_auth_filter("0123")), EXTERNAL_AUTH);
        assert_eq!(kind_of_filter(&proxy_jwt_filter(&owner)), "jwt");
        for own in [Filter::Acl, Filter::Buffer] {
            assert_eq!(kind_of_filter(own.name()), own.name());
        }
    }

    #[test]
    fn slots_of_the_probe_differ_by_their_purpose() {
        assert!(is_probe_authorities(&probe_authorities(1)));
        let others = [probe_routes(1), probe_certificate(1), probe_cluster(1)];
        assert!(!others.iter().any(|slot| is_probe_authorities(slot)));
    }

    #[test]
    fn only_tables_of_ports_are_plain() {
        assert!(is_plain(&route_configuration(&TableName::Port(80))));
        assert!(!is_plain(&route_configuration(&TableName::Listener("http/80".into()))));
    }
}
