//! The objects of a measurement as manifests: routes with one host each, in the versions that edits make of them, and a
//! Service for every ten routes.

use std::net::SocketAddr;

use holdfast_scenario_tests::manifests::{NAMESPACE, SERVICE_PORT, service};

/// Number of routes in a file, and of routes with the same Service.
pub(crate) const ROUTES_OF_FILE: usize = 10;
/// The end of every host.
pub(crate) const DOMAIN: &str = ".measure.example";
/// The header that every route adds to requests.
pub(crate) const HEADER: &str = "x-measure";
/// The path of every request; every version of a route matches it.
pub(crate) const PATH: &str = "/a-b";
/// A match that is larger than the limit of RE2 programs in Envoy, and smaller than the one in the bootstrap of Holdfast.
pub(crate) const LARGE: &str = "{type: RegularExpression, value: '/([a-z0-9]{1,40}-[a-z0-9]{1,40})'}";

/// A version of an edited route.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Edited {
    /// Number of the value of its header, which clients receive.
    pub(crate) value: usize,
    /// Number of the value of its annotation, which clients do not receive.
    pub(crate) annotation: usize,
    /// Whether an Envoy with a small limit of RE2 programs refuses it.
    pub(crate) is_refused: bool,
}

impl Edited {
    /// The value of the header. All values have the same length, so that all responses do.
    pub(crate) fn header(&self) -> String {
        format!("value-{:08}", self.value)
    }
}

/// The Service of the routes in a file, with its EndpointSlice.
pub(crate) fn service_of(file: usize, endpoint: SocketAddr) -> String {
    service(NAMESPACE, &backend(file), None, &[endpoint])
}

fn backend(file: usize) -> String {
    format!("s{file:05}")
}

/// The name of a route.
pub(crate) fn name(number: usize) -> String {
    format!("r{number:06}")
}

/// The host of a route.
pub(crate) fn host(number: usize) -> String {
    format!("{}{DOMAIN}", name(number))
}

/// The manifest of a route.
pub(crate) fn route(number: usize, edited: &Edited) -> String {
    let (backend, header, annotation) = (backend(number / ROUTES_OF_FILE), edited.header(), edited.annotation);
    let (name, host) = (name(number), host(number));
    let path = if edited.is_refused { LARGE } else { "{type: PathPrefix, value: /}" };
    format!(
        r#"apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: {name}
  namespace: {NAMESPACE}
  annotations:
    measure.example/number: "{annotation}"
spec:
  parentRefs:
  - name: public
  hostnames: ["{host}"]
  rules:
  - matches:
    - path: {path}
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {{set: [{{name: {HEADER}, value: {header}}}]}}
    backendRefs: [{{name: {backend}, port: {SERVICE_PORT}}}]
"#
    )
}
