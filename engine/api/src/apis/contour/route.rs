//! Routes of HTTPProxies, with their services and actions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::condition::MatchCondition;
use super::policy::{
    AuthorizationPolicy, HeadersPolicy, HealthCheckPolicy, IpFilterPolicy, LoadBalancerPolicy, PathRewritePolicy,
    RateLimitPolicy, RetryPolicy, TimeoutPolicy,
};

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyRoute {
    /// Match conditions, in addition to those of the includes.
    pub conditions: Option<Vec<MatchCondition>>,
    /// Destinations of the requests.
    pub services: Option<Vec<ProxyService>>,
    /// Whether WebSocket upgrades are allowed.
    pub enable_websockets: Option<bool>,
    /// Whether the route is also served without TLS on a host with TLS.
    pub permit_insecure: Option<bool>,
    /// Authorization settings that differ from the host.
    pub auth_policy: Option<AuthorizationPolicy>,
    /// Time limits.
    pub timeout_policy: Option<TimeoutPolicy>,
    /// Retries.
    pub retry_policy: Option<RetryPolicy>,
    /// Active health checks of endpoints.
    pub health_check_policy: Option<HealthCheckPolicy>,
    /// Load balancing policy.
    pub load_balancer_policy: Option<LoadBalancerPolicy>,
    /// Path rewrites; `pathRewrite`, the name in the design document, is an alias.
    #[serde(alias = "pathRewrite")]
    pub path_rewrite_policy: Option<PathRewritePolicy>,
    /// Changes to request headers.
    pub request_headers_policy: Option<HeadersPolicy>,
    /// Changes to response headers.
    pub response_headers_policy: Option<HeadersPolicy>,
    /// Changes to cookies.
    pub cookie_rewrite_policies: Option<Vec<CookieRewritePolicy>>,
    /// Rate limits.
    pub rate_limit_policy: Option<RateLimitPolicy>,
    /// Redirect of the client.
    pub request_redirect_policy: Option<RequestRedirectPolicy>,
    /// Direct response without a backend.
    pub direct_response_policy: Option<DirectResponsePolicy>,
    /// Redirects of backends that Envoy follows.
    pub internal_redirect_policy: Option<InternalRedirectPolicy>,
    /// Required tokens (JWT).
    pub jwt_verification_policy: Option<JwtVerificationPolicy>,
    /// Client addresses that are allowed.
    pub ip_allow_policy: Option<Vec<IpFilterPolicy>>,
    /// Client addresses that are denied.
    pub ip_deny_policy: Option<Vec<IpFilterPolicy>>,
}

/// A Service that receives requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyService {
    /// Name.
    pub name: Arc<str>,
    /// Port.
    pub port: i64,
    /// Port of the health checks.
    pub health_port: Option<i64>,
    /// `h2`, `h2c` or `tls`.
    pub protocol: Option<Arc<str>>,
    /// Share of the requests.
    pub weight: Option<i64>,
    /// Requirements on the certificate of the Service.
    pub validation: Option<UpstreamValidation>,
    /// Whether the Service gets only copies of requests.
    pub mirror: Option<bool>,
    /// Changes to headers of requests to this Service.
    pub request_headers_policy: Option<HeadersPolicy>,
    /// Changes to headers of responses of this Service.
    pub response_headers_policy: Option<HeadersPolicy>,
    /// Changes to cookies.
    pub cookie_rewrite_policies: Option<Vec<CookieRewritePolicy>>,
    /// Slow start: new endpoints get fewer requests for some time.
    pub slow_start_policy: Option<SlowStartPolicy>,
}

/// Requirements on the certificate of a backend.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamValidation {
    /// The Secret with the certificate authorities (`ca.crt`).
    #[serde(default)]
    pub ca_secret: Arc<str>,
    /// Required name in the certificate.
    #[serde(default)]
    pub subject_name: Arc<str>,
    /// Accepted names; the certificate must have at least one of them.
    pub subject_names: Option<Vec<Arc<str>>>,
}

/// Slow start of new endpoints.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowStartPolicy {
    /// Duration of the slow start.
    pub window: Arc<str>,
    /// Rate at which the share of a new endpoint grows, 1.0 where unset.
    pub aggression: Option<Arc<str>>,
    /// Initial share in percent, 10 where unset.
    #[serde(rename = "minWeightPercent")]
    pub min_weight_percent: Option<i64>,
}

/// Changes to a cookie.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CookieRewritePolicy {
    /// Name.
    pub name: Arc<str>,
    /// New path of the cookie.
    pub path_rewrite: Option<CookieValue>,
    /// New domain of the cookie.
    pub domain_rewrite: Option<CookieValue>,
    /// Whether the cookie is for secure connections only.
    pub secure: Option<bool>,
    /// `Strict`, `Lax` or `None`.
    pub same_site: Option<Arc<str>>,
}

/// The new path or domain of a cookie.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CookieValue {
    /// The value.
    pub value: Arc<str>,
}

/// Redirect of clients.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRedirectPolicy {
    /// `http` or `https`.
    pub scheme: Option<Arc<str>>,
    /// The host.
    pub hostname: Option<Arc<str>>,
    /// The port.
    pub port: Option<i64>,
    /// 301, 302, 303, 307 or 308; 302 where unset.
    pub status_code: Option<i64>,
    /// Replacement of the whole path.
    pub path: Option<Arc<str>>,
    /// Replacement of the prefix.
    pub prefix: Option<Arc<str>>,
}

/// Direct response without a backend.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectResponsePolicy {
    /// Status.
    pub status_code: i64,
    /// Body.
    pub body: Option<Arc<str>>,
}

/// Redirects of backends that Envoy follows instead of passing them to clients.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InternalRedirectPolicy {
    /// Maximum number of redirects in sequence.
    pub max_internal_redirects: Option<i64>,
    /// Statuses of redirects that are followed.
    pub redirect_response_codes: Option<Vec<i64>>,
    /// `Always`, `Never` or `SafeOnly`.
    pub allow_cross_scheme_redirect: Option<Arc<str>>,
    /// Whether a redirect to a route that was used before is denied.
    pub deny_repeated_route_redirect: Option<bool>,
}

/// Tokens (JWT) that a route requires.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtVerificationPolicy {
    /// Name of the required provider.
    pub require: Option<Arc<str>>,
    /// Whether no token is required.
    pub disabled: Option<bool>,
}
