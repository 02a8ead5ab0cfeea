//! Sample manifests: a Gateway that two teams share. Each version of a route adds its number to requests, so that
//! responses show which version served them.

use std::net::SocketAddr;

/// The request header with the version of the route that served the request.
pub(super) const VERSION_HEADER: &str = "x-route-version";

/// The host that both teams use.
pub(super) const HOST: &str = "shop.example.com";
/// A host that only the checkout team uses.
pub(super) const PAY_HOST: &str = "pay.example.com";

/// A path regex that Holdfast and a current Envoy compile, but that is too large for an Envoy with the default limit of
/// its regex engine (RE2, 100 instructions), which a bootstrap can raise.
pub(super) const LARGE_REGEX: &str = "/checkout/v2/([a-z0-9]{1,40}-[a-z0-9]{1,40})";
/// A path regex that never compiles.
pub(super) const BAD_REGEX: &str = "/checkout/refunds/[0-9+";

/// The objects of the platform team.
pub(super) fn platform(port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{name: holdfast}}
spec: {{controllerName: holdfast.dev/gateway-controller}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: public, namespace: infra}}
spec:
  gatewayClassName: holdfast
  listeners:
  - name: http
    port: {port}
    protocol: HTTP
    allowedRoutes: {{namespaces: {{from: All}}}}
"
    )
}

/// The objects of the shop team: everything below `/`.
pub(super) fn shop(backend: SocketAddr, version: u32) -> String {
    let rule = rule("everything", "PathPrefix", "/", "shop", version);
    format!("{}{}", service("shop", "shop", backend), route("shop", "shop", HOST, &rule))
}

/// The objects of the checkout team: `/checkout`, and a regex below it.
pub(super) fn checkout(backend: SocketAddr, version: u32, regex: &str) -> String {
    let pay = rule("pay", "PathPrefix", "/checkout", "checkout", version);
    let orders = rule("orders", "RegularExpression", regex, "checkout", version);
    let rules = format!("{pay}{orders}");
    let hosts = format!("{HOST}, {PAY_HOST}");
    format!("{}{}", service("checkout", "checkout", backend), route("checkout", "checkout", &hosts, &rules))
}

/// Another route of the checkout team, with a mistake in it.
pub(super) fn refunds() -> String {
    route("checkout", "refunds", HOST, &rule("refunds", "RegularExpression", BAD_REGEX, "checkout", 1))
}

fn route(namespace: &str, name: &str, hosts: &str, rules: &str) -> String {
    format!(
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  parentRefs: [{{name: public, namespace: infra}}]
  hostnames: [{hosts}]
  rules:
{rules}"
    )
}

fn rule(name: &str, kind: &str, path: &str, service: &str, version: u32) -> String {
    format!(
        "  - name: {name}
    matches: [{{path: {{type: {kind}, value: \"{path}\"}}}}]
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {{set: [{{name: {VERSION_HEADER}, value: \"{version}\"}}]}}
    backendRefs: [{{name: {service}, port: 80}}]
"
    )
}

fn service(namespace: &str, name: &str, backend: SocketAddr) -> String {
    format!(
        "apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{ports: [{{name: http, port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {name}-1
  namespace: {namespace}
  labels: {{kubernetes.io/service-name: {name}}}
addressType: IPv4
ports: [{{name: http, port: {}}}]
endpoints: [{{addresses: [\"{}\"]}}]
",
        backend.port(),
        backend.ip()
    )
}
