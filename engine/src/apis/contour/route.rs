//! Routes, their services and their actions.

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
pub struct Route {
    /// Which requests are meant, beside what the includes say.
    pub conditions: Option<Vec<MatchCondition>>,
    /// Where they go.
    pub services: Option<Vec<Service>>,
    /// May they become web sockets?
    pub enable_websockets: Option<bool>,
    /// Are they served without TLS too, where the host has TLS?
    pub permit_insecure: Option<bool>,
    /// What of the host's authorization is otherwise.
    pub auth_policy: Option<AuthorizationPolicy>,
    /// Time limits.
    pub timeout_policy: Option<TimeoutPolicy>,
    /// When they are tried again.
    pub retry_policy: Option<RetryPolicy>,
    /// How endpoints are checked.
    pub health_check_policy: Option<HealthCheckPolicy>,
    /// How endpoints are chosen.
    pub load_balancer_policy: Option<LoadBalancerPolicy>,
    /// Changes of the path; `pathRewrite` is the name that the design had for it.
    #[serde(alias = "pathRewrite")]
    pub path_rewrite_policy: Option<PathRewritePolicy>,
    /// Changes to requests.
    pub request_headers_policy: Option<HeadersPolicy>,
    /// Changes to responses.
    pub response_headers_policy: Option<HeadersPolicy>,
    /// Changes to cookies.
    pub cookie_rewrite_policies: Option<Vec<CookieRewritePolicy>>,
    /// How often they may come.
    pub rate_limit_policy: Option<RateLimitPolicy>,
    /// The client is told to go elsewhere.
    pub request_redirect_policy: Option<RequestRedirectPolicy>,
    /// They are answered at once.
    pub direct_response_policy: Option<DirectResponsePolicy>,
    /// Redirects of back ends that are followed.
    pub internal_redirect_policy: Option<InternalRedirectPolicy>,
    /// Which tokens are needed.
    pub jwt_verification_policy: Option<JwtVerificationPolicy>,
    /// Who may come in.
    pub ip_allow_policy: Option<Vec<IpFilterPolicy>>,
    /// Who may not.
    pub ip_deny_policy: Option<Vec<IpFilterPolicy>>,
}

/// A Service that requests go to.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// Name.
    pub name: Arc<str>,
    /// Port.
    pub port: i64,
    /// The port that is asked for health.
    pub health_port: Option<i64>,
    /// `h2`, `h2c` or `tls`.
    pub protocol: Option<Arc<str>>,
    /// Share of the requests.
    pub weight: Option<i64>,
    /// What its certificate must be.
    pub validation: Option<UpstreamValidation>,
    /// Does it get copies only?
    pub mirror: Option<bool>,
    /// Changes to requests that go here.
    pub request_headers_policy: Option<HeadersPolicy>,
    /// Changes to responses that come from here.
    pub response_headers_policy: Option<HeadersPolicy>,
    /// Changes to cookies.
    pub cookie_rewrite_policies: Option<Vec<CookieRewritePolicy>>,
    /// New endpoints get fewer requests for a while.
    pub slow_start_policy: Option<SlowStartPolicy>,
}

/// What the certificate of a back end must be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamValidation {
    /// The Secret of the authorities (`ca.crt`).
    #[serde(default)]
    pub ca_secret: Arc<str>,
    /// The name in the certificate.
    #[serde(default)]
    pub subject_name: Arc<str>,
    /// The names in the certificate, of which one must be there.
    pub subject_names: Option<Vec<Arc<str>>>,
}

/// How new endpoints are spared.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowStartPolicy {
    /// For how long.
    pub window: Arc<str>,
    /// How fast their share grows, 1.0 where unset.
    pub aggression: Option<Arc<str>>,
    /// The share to begin with, 10 where unset.
    #[serde(rename = "minWeightPercent")]
    pub min_weight_percent: Option<i64>,
}

/// Changes to a cookie.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CookieRewritePolicy {
    /// Name.
    pub name: Arc<str>,
    /// Its path.
    pub path_rewrite: Option<CookieValue>,
    /// Its domain.
    pub domain_rewrite: Option<CookieValue>,
    /// Is it for secure connections only?
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

/// Where clients are told to go.
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
    /// The whole path.
    pub path: Option<Arc<str>>,
    /// What stands in the place of the prefix.
    pub prefix: Option<Arc<str>>,
}

/// An answer that needs no back end.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectResponsePolicy {
    /// Status.
    pub status_code: i64,
    /// Body.
    pub body: Option<Arc<str>>,
}

/// Redirects of back ends that are followed instead of being given to clients.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InternalRedirectPolicy {
    /// How many, one after the other.
    pub max_internal_redirects: Option<i64>,
    /// Of which statuses.
    pub redirect_response_codes: Option<Vec<i64>>,
    /// `Always`, `Never` or `SafeOnly`.
    pub allow_cross_scheme_redirect: Option<Arc<str>>,
    /// May a route not be taken twice?
    pub deny_repeated_route_redirect: Option<bool>,
}

/// Which tokens a route needs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtVerificationPolicy {
    /// Those of a provider.
    pub require: Option<Arc<str>>,
    /// None.
    pub disabled: Option<bool>,
}
