//! Guards, each with an allowed and a denied request, and with ways to break it.

use holdfast_scenario_tests::request::HttpRequest;
use hyper::Method;

/// A policy that protects.
pub(crate) struct ProtectingPolicy {
    /// The spec of the policy.
    pub(crate) spec: &'static str,
    /// Further objects.
    pub(crate) besides: &'static str,
    /// Makes a request that is allowed.
    pub(crate) passing: fn(HttpRequest) -> HttpRequest,
    /// Makes a request that is denied.
    pub(crate) failing: fn(HttpRequest) -> HttpRequest,
    /// The status of the denied request.
    pub(crate) status: u16,
    /// Specs that cannot be enforced, each in a different way.
    pub(crate) broken: &'static [&'static str],
}

/// A policy that refers to a missing object.
const MISSING: &str = "apiKeyAuth: {secretRef: {name: nobody}}";
/// A policy that cannot be parsed.
const UNREADABLE: &str = "timeouts: soon";

pub(crate) fn basic_auth() -> ProtectingPolicy {
    ProtectingPolicy {
        spec: "basicAuth: {users: [\"alice:{SHA}CEo1Ae3vaEXy8eQZjsOiuBz1xrw=\"]}",
        besides: "",
        passing: |request| request.header("authorization", "Basic YWxpY2U6c2VzYW1l"),
        failing: |request| request.header("authorization", "Basic YWxpY2U6d3Jvbmc="),
        status: 401,
        broken: &["basicAuth: {users: [\"alice:sesame\"]}", "basicAuth: {secretRef: {name: nobody}}", UNREADABLE],
    }
}

pub(crate) fn api_key() -> ProtectingPolicy {
    ProtectingPolicy {
        spec: "apiKeyAuth: {secretRef: {name: keys}, clientIdHeader: x-client}",
        besides: "{apiVersion: v1, kind: Secret, metadata: {name: keys, namespace: default}, \
                  stringData: {alice: k-123, bob: k-456}}",
        passing: |request| request.header("api-key", "k-123"),
        failing: |request| request.header("api-key", "k-124"),
        status: 401,
        broken: &[MISSING, "apiKeyAuth: {secretRef: {name: keys}, keySources: [{}]}", UNREADABLE],
    }
}

pub(crate) fn acl() -> ProtectingPolicy {
    ProtectingPolicy {
        spec: "acl: {defaultAction: deny, rules: [{cidrs: [10.0.0.0/8], action: allow}, \
               {cidrs: [10.1.0.0/16], action: deny}, {cidrs: [10.1.2.0/24], action: allow}, \
               {cidrs: [\"fd00::/8\"], action: allow}]}",
        besides: "",
        passing: |request| request,
        failing: |request| request,
        status: 403,
        broken: &["acl: {rules: [{cidrs: [10.0.0.1/8], action: allow}]}", MISSING, UNREADABLE],
    }
}

pub(crate) fn rbac() -> ProtectingPolicy {
    ProtectingPolicy {
        spec: "rbac: {policy: {matchExpressions: [\"request.headers['role'] in ['admin', 'root']\", \
               \"request.headers['x-friend'] == 'yes' && request.url_path.startsWith('/friends/')\"]}}",
        besides: "",
        passing: |request| request.header("role", "root"),
        failing: |request| request.header("role", "guest").header("x-friend", "yes"),
        status: 403,
        broken: &[
            "rbac: {policy: {matchExpressions: [\"request.headers['role'] ==\"]}}",
            "rbac: {policy: {matchExpressions: [\"true\", \"nobody(request.path)\"]}}",
            UNREADABLE,
        ],
    }
}

pub(crate) fn csrf() -> ProtectingPolicy {
    ProtectingPolicy {
        spec: "csrf: {percentageEnabled: 100, additionalOrigins: [{suffix: .friend.example}]}",
        besides: "",
        passing: |request| request.method(Method::POST).header("origin", "http://a.friend.example"),
        failing: |request| request.method(Method::POST).header("origin", "http://evil.example"),
        status: 403,
        broken: &["csrf: {additionalOrigins: [{safeRegex: \"(\"}]}", MISSING, UNREADABLE],
    }
}

pub(crate) fn buffer() -> ProtectingPolicy {
    ProtectingPolicy {
        spec: "buffer: {maxRequestSize: 1Ki}",
        besides: "",
        passing: |request| request.method(Method::POST).body(vec![b'x'; 512]),
        failing: |request| request.method(Method::POST).body(vec![b'x'; 2048]),
        status: 413,
        broken: &["buffer: {maxRequestSize: 0}", MISSING, UNREADABLE],
    }
}
