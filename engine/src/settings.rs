//! What operators set: names, gates, replacement, limits of trust. Data only; flags are parsed in `run`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_graph::ObjectKey;

/// The `spec.controllerName` of the GatewayClasses that are served.
pub const CONTROLLER_NAME: &str = "holdfast.dev/gateway-controller";

/// What a replaced route answers when nothing else is set (EP-10625).
pub const INVALID_ROUTE_RESPONSE_BODY: &str = "Holdfast has invalid configuration. Administrators should check the \
                                               HTTPRoute resource to find and fix config errors.";

/// The body for an object of a kind: [`INVALID_ROUTE_RESPONSE_BODY`] names the kind, any other body is as it is set.
pub fn body_for(body: &Arc<str>, kind: &str) -> Arc<str> {
    if kind == NAMED_KIND || **body != *INVALID_ROUTE_RESPONSE_BODY {
        return body.clone();
    }
    body.replace(NAMED_KIND, kind).into()
}

/// The kind that [`INVALID_ROUTE_RESPONSE_BODY`] names.
const NAMED_KIND: &str = "HTTPRoute";

/// The status of what must not be served, unless set otherwise.
pub const CLOSED_STATUS: u16 = 500;

/// RE2 program size above which a regex is refused; the generated bootstrap raises Envoy's own limit to it.
pub const RE2_PROGRAM_SIZE_MAX: u32 = 10_000;

/// How an invalid route is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// HTTP status of the direct response (200 to 599).
    pub code: u16,
    /// Its body (at most 4096 bytes, Envoy's limit).
    pub body: Arc<str>,
}

impl Default for Replacement {
    fn default() -> Self {
        Self { code: 404, body: INVALID_ROUTE_RESPONSE_BODY.into() }
    }
}

/// What is done about what is broken (gate `FallbackConfiguration` and what belongs to it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// Isolate broken objects (gate `FallbackConfiguration`). Otherwise a configuration that Envoy refuses takes the whole
    /// Gateway back to what was last valid.
    pub isolate: bool,
    /// With `isolate`: take broken objects back to their last valid version before anything else.
    pub use_last_valid: bool,
    /// With `use_last_valid`: take dependants back together with what they depend on.
    pub backfill_dependants: bool,
    /// Backfill also a new version of a route that names a back end that does not exist.
    pub backfill_unresolved: bool,
    /// Seconds for which a last valid version may stand in for a broken one; no limit where unset.
    pub max_backfill_age: Option<i64>,
    /// Milliseconds that an Envoy may take to answer before that counts as silence.
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
            ack_timeout_ms: 30_000,
        }
    }
}

/// How HTTPProxies are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxies {
    /// The Gateway at whose listeners they stand; a pair of listeners of their own where unset.
    pub gateway: Option<ObjectKey>,
    /// The port without TLS.
    pub http_port: u16,
    /// The port with TLS.
    pub https_port: u16,
    /// The namespaces in which roots may stand; all where empty.
    pub root_namespaces: Vec<Arc<str>>,
    /// The classes whose proxies are served; where empty, those of class `contour` and those without one.
    pub ingress_classes: Vec<Arc<str>>,
    /// Who keeps limits that all Envoys share; routes with such limits stay closed where unset.
    pub rate_limit: Option<RateLimits>,
    /// The Secret of the certificate that clients are shown who name no host, or one that nobody has.
    pub fallback_certificate: Option<ObjectKey>,
}

/// Who keeps limits that all Envoys share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// The ExtensionService that is asked.
    pub service: ObjectKey,
    /// Whose limits are meant.
    pub domain: Arc<str>,
    /// How long an answer may take, unless the ExtensionService says so.
    pub timeout: Duration,
    /// Do requests pass where there is no answer?
    pub fail_open: bool,
    /// Are clients told how much is left (`X-RateLimit-*`)?
    pub tell_clients: bool,
    /// Do gRPC calls over the limit get `RESOURCE_EXHAUSTED`?
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
        }
    }
}

/// Everything that the deciding code can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Only GatewayClasses with this `spec.controllerName` are served.
    pub controller_name: Arc<str>,
    /// What stands in the place of an invalid route; `None` leaves invalid rules out (gate `InvalidRouteReplacement`).
    pub replacement: Option<Replacement>,
    /// The answer of a route whose back end is missing; the status is always what Gateway API requires (500; 503 to gRPC
    /// calls, which makes it `UNAVAILABLE`).
    pub missing_backend_body: Arc<str>,
    /// The status of a host, or of a whole route configuration, that must not be served.
    pub closed_status: u16,
    /// May back ends be at loopback addresses? True in standalone mode.
    pub allow_loopback_backends: bool,
    /// May Envoy check the health of hosts that it looks up? Such checks pass no filter of addresses.
    pub allow_health_checks_by_name: bool,
    /// In standalone mode: where listeners bind that do not name an address themselves. All Gateways share one host,
    /// so that two of them cannot have the same port. `None` in Kubernetes mode: every Gateway has its own pods.
    pub listen_address: Option<IpAddr>,
    /// Added to listener ports below 1024, for a process that may not bind them.
    pub low_port_shift: u16,
    /// RE2 program size (instructions) above which a regex is refused.
    pub re2_program_size_max: u32,
    /// What is done about what is broken.
    pub fallback: Fallback,
    /// How HTTPProxies are served.
    pub proxies: Proxies,
    /// Are Envoys made for each Gateway? Then its addresses are those of its Service.
    pub provision: bool,
    /// Addresses that Gateways are told to have where that is not so.
    pub addresses: Vec<Arc<str>>,
}

impl Settings {
    /// The settings of standalone mode: loopback back ends are allowed, listeners bind 127.0.0.1.
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
