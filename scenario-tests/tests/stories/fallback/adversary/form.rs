//! The versions of a route: what edits change, and the manifest of an HTTPRoute or HTTPProxy.

use holdfast_scenario_tests::manifests::route;
use holdfast_scenario_tests::mistakes::HEADER;

use super::super::LARGE;

/// The kind of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An HTTPRoute.
    HttpRoute,
    /// An HTTPProxy.
    HttpProxy,
}

/// How a route matches its path. Every match matches the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathMatch {
    /// A prefix.
    Prefix,
    /// The whole path.
    Exact,
    /// A regular expression that every Envoy accepts.
    GoodRegex,
    /// A regular expression that Envoys refuse.
    LargeRegex,
    /// A regular expression that translation refuses.
    BadRegex,
}

/// The backend of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    /// The first of the route's own backends.
    First,
    /// The second one.
    Second,
    /// A Service that does not exist.
    Missing,
}

/// A version of a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// The number in the response header `x-version`.
    pub(super) version: u64,
    /// The backend.
    pub(super) backend: Backend,
    /// The match of the path.
    pub(super) path: PathMatch,
    /// The number in the hostname.
    pub(super) host: u64,
    /// Whether the hostname cannot be used.
    pub(super) has_bad_host: bool,
    /// Whether the route has a mistake for the Envoy that refuses mistakes.
    pub(super) has_mistake: bool,
}

impl Form {
    /// A valid version.
    pub(super) fn good(version: u64, host: u64) -> Self {
        let (backend, path) = (Backend::First, PathMatch::Prefix);
        Self { version, backend, path, host, has_bad_host: false, has_mistake: false }
    }

    /// The name of the Service and of its pod.
    pub(super) fn service(&self, name: &str) -> String {
        let suffix = match self.backend {
            Backend::First => "a",
            Backend::Second => "b",
            Backend::Missing => "missing",
        };
        format!("{name}-{suffix}")
    }

    /// The manifest.
    pub(super) fn manifest(&self, kind: Kind, namespace: &str, name: &str) -> String {
        let service = self.service(name);
        let host = match self.has_bad_host {
            true => format!("'h{}_.{name}..example'", self.host),
            false => host(name, self.host),
        };
        let (sort, condition, value) = match self.path {
            PathMatch::Prefix => ("PathPrefix", "prefix", format!("/{name}")),
            PathMatch::Exact => ("Exact", "exact", path(name)),
            PathMatch::GoodRegex => ("RegularExpression", "regex", format!("/{name}/[a-z]-[a-z]")),
            PathMatch::LargeRegex => ("RegularExpression", "regex", format!("/{name}/{LARGE}")),
            PathMatch::BadRegex => ("RegularExpression", "regex", format!("/{name}/(")),
        };
        let mistake = if self.has_mistake { format!(", {{name: {HEADER}, value: regex}}") } else { String::new() };
        let headers = format!("{{set: [{{name: x-version, value: '{}'}}{mistake}]}}", self.version);
        match kind {
            Kind::HttpRoute => {
                let spec = format!(
                    "hostnames: [{host}]\nrules:\n- matches: [{{path: {{type: {sort}, value: '{value}'}}}}]\n  \
                     filters: [{{type: ResponseHeaderModifier, responseHeaderModifier: {headers}}}]\n  \
                     backendRefs: [{{name: {service}, port: 8080}}]\n"
                );
                route("HTTPRoute", namespace, name, "- name: public\n  namespace: default\n", &spec)
            }
            Kind::HttpProxy => format!(
                "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
                 spec:\n  virtualhost: {{fqdn: {host}}}\n  routes:\n  - conditions: [{{{condition}: '{value}'}}]\n    \
                 responseHeadersPolicy: {headers}\n    services: [{{name: {service}, port: 8080}}]\n"
            ),
        }
    }
}

/// The hostname with a number.
pub(super) fn host(name: &str, number: u64) -> String {
    format!("h{number}.{name}.example")
}

/// The path of all requests to a route.
pub(super) fn path(name: &str) -> String {
    format!("/{name}/{}", super::super::SAMPLE)
}
