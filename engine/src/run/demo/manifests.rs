//! The sample manifests: a Gateway that two teams share.

use std::net::SocketAddr;

/// How the checkout team's second rule stands at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checkout {
    /// As it should be.
    Fine,
    /// A regular expression that does not compile.
    BadRegex,
    /// A back end that does not exist.
    NoBackend,
}

/// The platform team's objects.
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

/// The shop team's objects: everything below `/`.
pub(super) fn shop(backend: SocketAddr) -> String {
    format!(
        "{}---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: shop, namespace: shop}}
spec:
  parentRefs: [{{name: public, namespace: infra}}]
  hostnames: [shop.example.com]
  rules:
  - matches: [{{path: {{type: PathPrefix, value: /}}}}]
    backendRefs: [{{name: shop, port: 80}}]
",
        service("shop", "shop", backend)
    )
}

/// The checkout team's objects: `/checkout` and `/checkout/orders/<number>` of the same host.
pub(super) fn checkout(backend: SocketAddr, state: Checkout) -> String {
    let pattern = if state == Checkout::BadRegex { "/checkout/orders/[0-9+" } else { "/checkout/orders/[0-9]+" };
    let target = if state == Checkout::NoBackend { "nobody" } else { "checkout" };
    format!(
        "{}---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: checkout, namespace: checkout}}
spec:
  parentRefs: [{{name: public, namespace: infra}}]
  hostnames: [shop.example.com]
  rules:
  - name: pay
    matches: [{{path: {{type: PathPrefix, value: /checkout}}}}]
    backendRefs: [{{name: checkout, port: 80}}]
  - name: orders
    matches: [{{path: {{type: RegularExpression, value: \"{pattern}\"}}}}]
    backendRefs: [{{name: {target}, port: 80}}]
",
        service("checkout", "checkout", backend)
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
