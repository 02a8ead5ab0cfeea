//! Manifests as text: the few shapes that nearly every story needs. What a story is about it writes out itself.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The controller name that Holdfast answers to.
pub const CONTROLLER: &str = "holdfast.dev/gateway-controller";
/// The GatewayClass of the stories.
pub const CLASS: &str = "holdfast";
/// The namespace of the stories where they name none.
pub const NAMESPACE: &str = "default";
/// The Service port of every echo back end.
pub const SERVICE_PORT: u16 = 8080;

/// The GatewayClass and the namespace.
pub fn class() -> String {
    format!(
        r#"apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata:
  name: {CLASS}
spec:
  controllerName: {CONTROLLER}
---
{}"#,
        namespace(NAMESPACE, "")
    )
}

/// A Namespace with labels, one `key: value` per line.
pub fn namespace(name: &str, labels: &str) -> String {
    let labels = if labels.is_empty() { String::new() } else { format!("\n  labels:\n{}", indent(labels, 4)) };
    format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}{labels}\n")
}

/// A Gateway of the stories' class with these listeners (a YAML list).
pub fn gateway(name: &str, listeners: &str) -> String {
    format!(
        r#"apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: {name}
  namespace: {NAMESPACE}
spec:
  gatewayClassName: {CLASS}
  listeners:
{}"#,
        indent(listeners, 2)
    )
}

/// A plain listener named `http` that admits the routes of all namespaces.
pub fn http_listener(port: u16) -> String {
    listener("http", port, "protocol: HTTP")
}

/// A listener that admits the routes of all namespaces; `rest` are its further fields, one per line.
pub fn listener(name: &str, port: u16, rest: &str) -> String {
    format!("- name: {name}\n  port: {port}\n{}  allowedRoutes:\n    namespaces:\n      from: All\n", indent(rest, 2))
}

/// An HTTPS listener for a host with one or more certificates by the names of their Secrets.
pub fn https_listener(name: &str, port: u16, host: &str, secrets: &[&str]) -> String {
    let refs: String = secrets.iter().map(|secret| format!("  - name: {secret}\n")).collect();
    let host = if host.is_empty() { String::new() } else { format!("hostname: \"{host}\"\n") };
    listener(name, port, &format!("protocol: HTTPS\n{host}tls:\n  mode: Terminate\n  certificateRefs:\n{refs}"))
}

/// An HTTPRoute of the Gateway `public`; `spec` are the fields beside `parentRefs`.
pub fn http_route(name: &str, spec: &str) -> String {
    route("HTTPRoute", NAMESPACE, name, "- name: public\n", spec)
}

/// A GRPCRoute of the Gateway `public`; `spec` are the fields beside `parentRefs`.
pub fn grpc_route(name: &str, spec: &str) -> String {
    route("GRPCRoute", NAMESPACE, name, "- name: public\n", spec)
}

/// A route of any kind, with the YAML list of its parents and its further fields.
pub fn route(kind: &str, namespace: &str, name: &str, parents: &str, spec: &str) -> String {
    format!(
        r#"apiVersion: gateway.networking.k8s.io/v1
kind: {kind}
metadata:
  name: {name}
  namespace: {namespace}
spec:
  parentRefs:
{}{}"#,
        indent(parents, 2),
        indent(spec, 2)
    )
}

/// A Service and its one EndpointSlice with these addresses, all on loopback.
pub fn service(namespace: &str, name: &str, app_protocol: Option<&str>, addresses: &[SocketAddr]) -> String {
    let protocol = app_protocol.map(|protocol| format!("    appProtocol: {protocol}\n")).unwrap_or_default();
    let service = format!(
        r#"apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: {namespace}
spec:
  ports:
  - name: http
    port: {SERVICE_PORT}
{protocol}"#
    );
    format!("{service}---\n{}", slices(namespace, name, addresses))
}

/// The EndpointSlices of a Service, one for each address: a slice has one port for all of its addresses, and echo back
/// ends on loopback have each a port of their own.
pub fn slices(namespace: &str, service: &str, addresses: &[SocketAddr]) -> String {
    let slice = |(index, address): (usize, &SocketAddr)| {
        format!(
            r#"apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {service}-{index}
  namespace: {namespace}
  labels:
    kubernetes.io/service-name: {service}
addressType: IPv4
ports:
- name: http
  protocol: TCP
  port: {}
endpoints:
- addresses: ["{}"]
  conditions:
    ready: true
"#,
            address.port(),
            address.ip()
        )
    };
    addresses.iter().enumerate().map(slice).collect::<Vec<_>>().join("---\n")
}

/// A ReferenceGrant in `namespace` that lets objects of `from` name Services there.
pub fn grant(namespace: &str, name: &str, from_kind: &str, from_namespace: &str, to_kind: &str) -> String {
    let group = if from_kind == "Gateway" || from_kind.ends_with("Route") { "gateway.networking.k8s.io" } else { "" };
    format!(
        r#"apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata:
  name: {name}
  namespace: {namespace}
spec:
  from:
  - group: {group}
    kind: {from_kind}
    namespace: {from_namespace}
  to:
  - group: ""
    kind: {to_kind}
"#
    )
}

/// A Secret of type `kubernetes.io/tls`.
pub fn tls_secret(namespace: &str, name: &str, certificate: &str, key: &str) -> String {
    let (certificate, key) = (STANDARD.encode(certificate), STANDARD.encode(key));
    format!(
        r#"apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata:
  name: {name}
  namespace: {namespace}
data:
  tls.crt: {certificate}
  tls.key: {key}
"#
    )
}

/// One YAML file of several documents.
pub fn documents(parts: &[String]) -> String {
    parts.join("\n---\n")
}

/// Each line moved to the right, with a line end at the end.
pub fn indent(text: &str, by: usize) -> String {
    let margin = " ".repeat(by);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| format!("{margin}{line}\n")).collect()
}
