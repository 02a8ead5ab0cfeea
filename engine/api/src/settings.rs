//! Operator settings: names, feature gates, replacement responses, restrictions. Data only; `holdfast-cli` parses the
//! flags.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_graph::ObjectKey;

/// The `spec.controllerName` of the GatewayClasses that are served.
pub const CONTROLLER_NAME: &str = "holdfast.dev/gateway-controller";

/// The feature gate of direct responses that replace invalid rules.
pub const INVALID_ROUTE_REPLACEMENT: &str = "InvalidRouteReplacement";
/// The feature gate of last valid versions for references to missing backends.
pub const BACKFILL_UNRESOLVED_REFERENCES: &str = "BackfillUnresolvedReferences";
/// The feature gate of the fallback, which isolates broken objects.
pub const FALLBACK_CONFIGURATION: &str = "FallbackConfiguration";

/// The default body of the response that replaces an invalid route (EP-10625).
pub const INVALID_ROUTE_RESPONSE_BODY: &str = "Holdfast has invalid configuration. Administrators should check the \
                                               HTTPRoute resource to find and fix config errors.";

/// Returns the body for an object of a kind: [`INVALID_ROUTE_RESPONSE_BODY`] is adapted to the kind, any other body is
/// unchanged.
pub fn body_for(body: &Arc<str>, kind: &str) -> Arc<str> {
    if kind == NAMED_KIND || **body != *INVALID_ROUTE_RESPONSE_BODY {
        return body.clone();
    }
    body.replace(NAMED_KIND, kind).into()
}

/// The kind in [`INVALID_ROUTE_RESPONSE_BODY`].
const NAMED_KIND: &str = "HTTPRoute";

/// The default status of responses where nothing may be served.
pub const CLOSED_STATUS: u16 = 500;

/// RE2 program size above which a regex is refused; the generated bootstrap raises Envoy's own limit to it.
pub const RE2_PROGRAM_SIZE_MAX: u32 = 10_000;

/// The response that replaces an invalid route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The HTTP status of the direct response (200 to 599).
    pub code: u16,
    /// The body (at most 4096 bytes, Envoy's limit).
    pub body: Arc<str>,
}

impl Default for Replacement {
    fn default() -> Self {
        Self { code: 404, body: INVALID_ROUTE_RESPONSE_BODY.into() }
    }
}

/// Handling of broken objects (gate `FallbackConfiguration` and the settings that belong to it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// Whether broken objects are isolated (gate `FallbackConfiguration`). Otherwise, when Envoy refuses a
    /// configuration, the whole Gateway returns to its last valid configuration.
    pub isolate: bool,
    /// With `isolate`: whether broken objects are first backfilled with their last valid version.
    pub use_last_valid: bool,
    /// With `use_last_valid`: whether dependants are backfilled together with the objects they depend on.
    pub backfill_dependants: bool,
    /// Whether a new version of a route that references a missing backend is also backfilled.
    pub backfill_unresolved: bool,
    /// Maximum age in seconds of a last valid version that is served instead of a broken one; no limit where unset.
    pub max_backfill_age: Option<i64>,
    /// Whether versions of objects with credentials are known after a restart: they are stored only with a key.
    pub stores_credentials: bool,
    /// Time in milliseconds after which an Envoy without an answer counts as silent.
    pub ack_timeout_ms: u64,
}

impl Default for Fallback {
    fn default() -> Self {
        Self {
            isolate: false,
            use_last_valid: false,
            backfill_dependants: true,
            backfill_unresolved: false,
            max_backfill_age: None,
            stores_credentials: true,
            ack_timeout_ms: 30_000,
        }
    }
}

/// Settings of HTTPProxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxies {
    /// The Gateway with the listeners that serve HTTPProxies; a pair of separate listeners where unset.
    pub gateway: Option<ObjectKey>,
    /// The port without TLS.
    pub http_port: u16,
    /// The port with TLS.
    pub https_port: u16,
    /// The namespaces in which root HTTPProxies are allowed; all where empty.
    pub root_namespaces: Vec<Arc<str>>,
    /// The ingress classes that are served; where empty, `contour` and HTTPProxies without a class.
    pub ingress_classes: Vec<Arc<str>>,
    /// The service for global rate limits; routes with such limits stay closed where unset.
    pub rate_limit: Option<RateLimits>,
    /// The Secret with the certificate for clients that send no SNI, or one that matches no host.
    pub fallback_certificate: Option<ObjectKey>,
    /// The Secret with the client certificate that services of HTTPProxies over TLS get.
    pub client_certificate: Option<ObjectKey>,
}

/// The rate limit service of HTTPProxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// The ExtensionService that Envoy calls.
    pub service: ObjectKey,
    /// The domain of the limits.
    pub domain: Arc<str>,
    /// Timeout of a call, unless the ExtensionService sets one.
    pub timeout: Duration,
    /// Whether requests pass when the service does not answer.
    pub fail_open: bool,
    /// Whether responses include the remaining quota (`X-RateLimit-*`).
    pub quota_headers: bool,
    /// Whether gRPC calls over the limit get `RESOURCE_EXHAUSTED`.
    pub resource_exhausted: bool,
}

impl Default for Proxies {
    fn default() -> Self {
        Self {
            gateway: None,
            http_port: 8080,
            https_port: 8443,
            root_namespaces: Vec::new(),
            ingress_classes: Vec::new(),
            rate_limit: None,
            fallback_certificate: None,
            client_certificate: None,
        }
    }
}

/// All settings of the deciding code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Only GatewayClasses with this `spec.controllerName` are served.
    pub controller_name: Arc<str>,
    /// The response that replaces an invalid route; `None` omits invalid rules (gate `InvalidRouteReplacement`).
    pub replacement: Option<Replacement>,
    /// The body of responses of a route with a missing backend; the status is always the one that Gateway API requires
    /// (500; 503 for gRPC calls, which results in `UNAVAILABLE`).
    pub missing_backend_body: Arc<str>,
    /// The status of responses of a host, or of a whole route configuration, that must not be served.
    pub closed_status: u16,
    /// Whether backends may have loopback addresses; true in standalone mode.
    pub allow_loopback_backends: bool,
    /// Whether active health checks of hosts that Envoy resolves by DNS are allowed. Such checks pass no address
    /// filter.
    pub allow_health_checks_by_name: bool,
    /// The default address that listeners bind, in standalone mode. All Gateways share one host, so that no two of
    /// them can have the same port. `None` in Kubernetes mode: every Gateway has its own pods.
    pub listen_address: Option<IpAddr>,
    /// Offset added to listener ports below 1024, for a process that may not bind them.
    pub low_port_shift: u16,
    /// RE2 program size (instructions) above which a regex is refused.
    pub re2_program_size_max: u32,
    /// Handling of broken objects.
    pub fallback: Fallback,
    /// Settings of HTTPProxies.
    pub proxies: Proxies,
    /// Whether Holdfast creates Envoys for each Gateway. The Gateway's addresses are then those of its Service.
    pub provision: bool,
    /// Addresses that the status of Gateways reports otherwise.
    pub addresses: Vec<Arc<str>>,
}

impl Settings {
    /// Returns the settings of standalone mode: loopback backends are allowed, listeners bind 127.0.0.1.
    pub fn standalone() -> Self {
        Self {
            allow_loopback_backends: true,
            allow_health_checks_by_name: true,
            listen_address: Some(IpAddr::from([127, 0, 0, 1])),
            ..Self::default()
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            controller_name: CONTROLLER_NAME.into(),
            replacement: Some(Replacement::default()),
            missing_backend_body: INVALID_ROUTE_RESPONSE_BODY.into(),
            closed_status: CLOSED_STATUS,
            allow_loopback_backends: false,
            allow_health_checks_by_name: false,
            listen_address: None,
            low_port_shift: 0,
            re2_program_size_max: RE2_PROGRAM_SIZE_MAX,
            fallback: Fallback::default(),
            proxies: Proxies::default(),
            provision: false,
            addresses: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_names_the_kind_unless_an_operator_wrote_it() {
        let unset: Arc<str> = INVALID_ROUTE_RESPONSE_BODY.into();
        assert!(body_for(&unset, "HTTPProxy").contains("check the HTTPProxy resource"));
        assert_eq!(body_for(&unset, "HTTPRoute"), unset);
        let set: Arc<str> = "look at the HTTPRoute".into();
        assert_eq!(body_for(&set, "GRPCRoute"), set);
    }
}
