//! Policies of routes, services and virtual hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::guard::GlobalRateLimitPolicy;

/// Time limits.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimeoutPolicy {
    /// Time limit for the whole response.
    pub response: Option<Arc<str>>,
    /// Time limit for a stream without activity.
    pub idle: Option<Arc<str>>,
    /// Time limit for a connection to a backend without activity.
    pub idle_connection: Option<Arc<str>>,
}

/// Retries of requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// Number of retries; 1 where unset or 0, no retries where -1.
    pub count: Option<i64>,
    /// Time limit of one try.
    pub per_try_timeout: Option<Arc<str>>,
    /// Conditions for a retry, as in Envoy.
    pub retry_on: Option<Vec<Arc<str>>>,
    /// Statuses for `retriable-status-codes`.
    pub retriable_status_codes: Option<Vec<i64>>,
}

/// Load balancing between the endpoints of a Service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerPolicy {
    /// `RoundRobin`, `WeightedLeastRequest`, `Random`, `Cookie` or `RequestHash`.
    pub strategy: Option<Arc<str>>,
    /// Parts of a request that are hashed.
    pub request_hash_policies: Option<Vec<RequestHashPolicy>>,
}

/// A part of a request that is hashed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestHashPolicy {
    /// Whether the policies after this one are skipped when this one gives a hash.
    pub terminal: Option<bool>,
    /// A header.
    pub header_hash_options: Option<HeaderHashOptions>,
    /// A query parameter.
    pub query_parameter_hash_options: Option<QueryParameterHashOptions>,
    /// The address of the client.
    #[serde(rename = "hashSourceIP")]
    pub hash_source_ip: Option<bool>,
}

/// A header that is hashed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderHashOptions {
    /// Name.
    pub header_name: Option<Arc<str>>,
}

/// A query parameter that is hashed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryParameterHashOptions {
    /// Name.
    pub parameter_name: Option<Arc<str>>,
}

/// Replacements of path prefixes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathRewritePolicy {
    /// The replacements, by rendered prefix.
    pub replace_prefix: Option<Vec<ReplacePrefix>>,
}

/// A replacement of a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacePrefix {
    /// The rendered prefix to replace; any other prefix where unset.
    pub prefix: Option<Arc<str>>,
    /// The replacement of the prefix.
    #[serde(default)]
    pub replacement: Arc<str>,
}

/// Changes to headers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeadersPolicy {
    /// Headers that are set; existing values are overwritten.
    pub set: Option<Vec<HeaderValue>>,
    /// Headers that are removed.
    pub remove: Option<Vec<Arc<str>>>,
}

/// A header with its value.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderValue {
    /// Name.
    pub name: Arc<str>,
    /// Value.
    #[serde(default)]
    pub value: Arc<str>,
}

impl HeaderValue {
    /// Returns the request header that is copied to the `Host` header: the value is `%REQ(name)%` and nothing else.
    pub fn host_source(&self) -> Option<&str> {
        let is_host = self.name.trim().eq_ignore_ascii_case("host");
        let name = self.value.strip_prefix("%REQ(")?.strip_suffix(")%")?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (is_host && is_name).then_some(name)
    }
}

/// Rate limits of requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitPolicy {
    /// Limit for each Envoy.
    pub local: Option<LocalRateLimitPolicy>,
    /// Limit for all Envoys together.
    pub global: Option<GlobalRateLimitPolicy>,
}

/// Rate limit for each Envoy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalRateLimitPolicy {
    /// Number of requests in each unit of time.
    pub requests: i64,
    /// `second`, `minute` or `hour`.
    pub unit: Arc<str>,
    /// Number of additional requests that are allowed for a short time.
    pub burst: Option<i64>,
    /// The status of requests over the limit, 429 where unset.
    pub response_status_code: Option<i64>,
    /// Headers of responses to requests over the limit.
    pub response_headers_to_add: Option<Vec<HeaderValue>>,
}

/// Access by client address.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IpFilterPolicy {
    /// `Peer` or `Remote`.
    pub source: Arc<str>,
    /// An address or a range of addresses.
    pub cidr: Arc<str>,
}

/// Cross-origin requests (CORS).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CorsPolicy {
    /// Whether credentials such as cookies may be sent.
    pub allow_credentials: Option<bool>,
    /// Origins: `*`, an exact origin, or a regular expression.
    pub allow_origin: Option<Vec<Arc<str>>>,
    /// Methods.
    pub allow_methods: Option<Vec<Arc<str>>>,
    /// Request headers.
    pub allow_headers: Option<Vec<Arc<str>>>,
    /// Response headers that scripts may see.
    pub expose_headers: Option<Vec<Arc<str>>>,
    /// Time for which the answer to a preflight request may be cached.
    pub max_age: Option<Arc<str>>,
    /// Whether pages of the public network may send requests to this private network.
    pub allow_private_network: Option<bool>,
}

/// Active health checks of endpoints.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckPolicy {
    /// Path of the health check request.
    #[serde(default)]
    pub path: Arc<str>,
    /// Host of the health check request, `contour-envoy-healthcheck` where unset.
    pub host: Option<Arc<str>>,
    /// Seconds between two checks.
    pub interval_seconds: Option<i64>,
    /// Time limit for an answer, in seconds.
    pub timeout_seconds: Option<i64>,
    /// Number of failures after which an endpoint gets no requests.
    pub unhealthy_threshold_count: Option<i64>,
    /// Number of successes after which an endpoint gets requests again.
    pub healthy_threshold_count: Option<i64>,
    /// Statuses that count as success.
    pub expected_statuses: Option<Vec<StatusRange>>,
}

/// A half-open range of statuses.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusRange {
    /// First status of the range.
    pub start: i64,
    /// First status after the range.
    pub end: i64,
}

/// Authorization settings of a route that differ from the host.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationPolicy {
    /// Whether the authorization server is not called.
    pub disabled: Option<bool>,
    /// Context that is sent to the authorization server.
    pub context: Option<BTreeMap<String, String>>,
}
