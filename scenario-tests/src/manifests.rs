//! Manifests as text: the few shapes that nearly every story needs. A story writes the objects that it tests in full.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The controller name of Holdfast.
pub const CONTROLLER: &str = "holdfast.dev/gateway-controller";
/// The GatewayClass of the stories.
pub const CLASS: &str = "holdfast";
/// The default namespace of the stories.
pub const NAMESPACE: &str = "default";
/// The Service port of every echo backend.
pub const SERVICE_PORT: u16 = 8080;

/// Returns the GatewayClass and the namespace.
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

/// Returns a Namespace with labels, one `key: value` per line.
pub fn namespace(name: &str, labels: &str) -> String {
    let labels = if labels.is_empty() { String::new() } else { format!("\n  labels:\n{}", indent(labels, 4)) };
    format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}{labels}\n")
}

/// Returns a Gateway of the stories' class with these listeners (a YAML list).
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

/// Returns a plain listener named `http` that allows routes of all namespaces.
pub fn http_listener(port: u16) -> String {
    listener("http", port, "protocol: HTTP")
}

/// Returns a listener that allows routes of all namespaces; `rest` are its further fields, one per line.
pub fn listener(name: &str, port: u16, rest: &str) -> String {
    format!("- name: {name}\n  port: {port}\n{}  allowedRoutes:\n    namespaces:\n      from: All\n", indent(rest, 2))
}

/// Returns an HTTPS listener for a host with one or more certificates, given by the names of their Secrets.
pub fn https_listener(name: &str, port: u16, host: &str, secrets: &[&str]) -> String {
    let refs: String = secrets.iter().map(|secret| format!("  - name: {secret}\n")).collect();
    let host = if host.is_empty() { String::new() } else { format!("hostname: \"{host}\"\n") };
    listener(name, port, &format!("protocol: HTTPS\n{host}tls:\n  mode: Terminate\n  certificateRefs:\n{refs}"))
}

/// Returns an HTTPRoute of the Gateway `public`; `spec` has the fields beside `parentRefs`.
pub fn http_route(name: &str, spec: &str) -> String {
    route("HTTPRoute", NAMESPACE, name, "- name: public\n", spec)
}

/// Returns a GRPCRoute of the Gateway `public`; `spec` has the fields beside `parentRefs`.
pub fn grpc_route(name: &str, spec: &str) -> String {
    route("GRPCRoute", NAMESPACE, name, "- name: public\n", spec)
}

/// Returns a route of any kind, with the YAML list of its parents and its further fields.
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

/// Returns a Service and its EndpointSlices with these addresses, all on loopback.
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

/// Returns the EndpointSlices of a Service, one for each address: a slice has one port for all of its addresses, and
/// each echo backend on loopback has its own port.
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

/// Returns a ReferenceGrant in `namespace` that allows objects of `from_kind` in `from_namespace` to refer to
/// `to_kind`.
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

/// Returns a Secret of type `kubernetes.io/tls`.
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

/// Returns one YAML file of several documents.
pub fn documents(parts: &[String]) -> String {
    parts.join("\n---\n")
}

/// Indents each line; the result ends with a line break.
pub fn indent(text: &str, by: usize) -> String {
    let margin = " ".repeat(by);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| format!("{margin}{line}\n")).collect()
}
