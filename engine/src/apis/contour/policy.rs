//! Policies of routes, services and virtual hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::guard::GlobalRateLimitPolicy;

/// Time limits.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimeoutPolicy {
    /// For the whole response.
    pub response: Option<Arc<str>>,
    /// For a stream on which nothing happens.
    pub idle: Option<Arc<str>>,
    /// For a connection to a back end on which nothing happens.
    pub idle_connection: Option<Arc<str>>,
}

/// When a request is tried again.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// How often; 1 where unset or 0, never where -1.
    pub count: Option<i64>,
    /// Time limit of one try.
    pub per_try_timeout: Option<Arc<str>>,
    /// On what, as Envoy has it.
    pub retry_on: Option<Vec<Arc<str>>>,
    /// Statuses for `retriable-status-codes`.
    pub retriable_status_codes: Option<Vec<i64>>,
}

/// How the endpoints of a Service are chosen.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerPolicy {
    /// `RoundRobin`, `WeightedLeastRequest`, `Random`, `Cookie` or `RequestHash`.
    pub strategy: Option<Arc<str>>,
    /// What is hashed.
    pub request_hash_policies: Option<Vec<RequestHashPolicy>>,
}

/// A part of a request that is hashed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestHashPolicy {
    /// What follows is not looked at where this gives a hash.
    pub terminal: Option<bool>,
    /// A header.
    pub header_hash_options: Option<HeaderHashOptions>,
    /// A query parameter.
    pub query_parameter_hash_options: Option<QueryParameterHashOptions>,
    /// The client's address.
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

/// Replacing of prefixes.
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
    /// The rendered prefix that is meant; every other one where unset.
    pub prefix: Option<Arc<str>>,
    /// What stands in its place.
    #[serde(default)]
    pub replacement: Arc<str>,
}

/// Changes to headers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeadersPolicy {
    /// Put in the place of what is there.
    pub set: Option<Vec<HeaderValue>>,
    /// Taken away.
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

/// How often requests may come.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitPolicy {
    /// For each Envoy.
    pub local: Option<LocalRateLimitPolicy>,
    /// For all Envoys together.
    pub global: Option<GlobalRateLimitPolicy>,
}

/// How often requests may come to one Envoy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalRateLimitPolicy {
    /// Requests for each unit of time.
    pub requests: i64,
    /// `second`, `minute` or `hour`.
    pub unit: Arc<str>,
    /// Requests above that, for a short time.
    pub burst: Option<i64>,
    /// The status of requests over the limit, 429 where unset.
    pub response_status_code: Option<i64>,
    /// Headers of responses to requests over the limit.
    pub response_headers_to_add: Option<Vec<HeaderValue>>,
}

/// Who may come in, by address.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IpFilterPolicy {
    /// `Peer` or `Remote`.
    pub source: Arc<str>,
    /// An address or a range of addresses.
    pub cidr: Arc<str>,
}

/// Cross-origin requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CorsPolicy {
    /// May cookies and the like be sent?
    pub allow_credentials: Option<bool>,
    /// Origins: `*`, a precise one, or a regular expression.
    pub allow_origin: Option<Vec<Arc<str>>>,
    /// Methods.
    pub allow_methods: Option<Vec<Arc<str>>>,
    /// Request headers.
    pub allow_headers: Option<Vec<Arc<str>>>,
    /// Response headers that scripts may see.
    pub expose_headers: Option<Vec<Arc<str>>>,
    /// How long a preflight's answer may be kept.
    pub max_age: Option<Arc<str>>,
    /// May pages of the public network ask?
    pub allow_private_network: Option<bool>,
}

/// How it is found out whether an endpoint works.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckPolicy {
    /// The path that is asked for.
    #[serde(default)]
    pub path: Arc<str>,
    /// The host that is asked for, `contour-envoy-healthcheck` where unset.
    pub host: Option<Arc<str>>,
    /// Seconds between two checks.
    pub interval_seconds: Option<i64>,
    /// Seconds that an answer may take.
    pub timeout_seconds: Option<i64>,
    /// Failures after which an endpoint gets no requests.
    pub unhealthy_threshold_count: Option<i64>,
    /// Successes after which it gets requests again.
    pub healthy_threshold_count: Option<i64>,
    /// Statuses that are successes.
    pub expected_statuses: Option<Vec<StatusRange>>,
}

/// Statuses from one to before another.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusRange {
    /// The first.
    pub start: i64,
    /// The first that is not meant any more.
    pub end: i64,
}

/// What of an authorization is otherwise for a route.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationPolicy {
    /// Nobody is asked.
    pub disabled: Option<bool>,
    /// What the server is told.
    pub context: Option<BTreeMap<String, String>>,
}
