//! Fields of TrafficPolicies for the handling of requests and responses.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::policy::{Disable, Quantity};

/// Cross-origin requests (CORS).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// Origins.
    pub allow_origins: Option<Vec<String>>,
    /// Whether credentials such as cookies may be sent.
    pub allow_credentials: Option<bool>,
    /// Methods.
    pub allow_methods: Option<Vec<String>>,
    /// Request headers.
    pub allow_headers: Option<Vec<String>>,
    /// Response headers that scripts may see.
    pub expose_headers: Option<Vec<String>>,
    /// Time for which the answer to a preflight request may be cached, in seconds.
    pub max_age: Option<i64>,
    /// Disables CORS, whatever less specific policies specify.
    pub disable: Option<Disable>,
}

/// CSRF protection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Csrf {
    /// Percentage of requests that are checked.
    pub percentage_enabled: Option<i64>,
    /// Percentage of requests that are checked without enforcement.
    pub percentage_shadowed: Option<i64>,
    /// Additional origins that are trusted like the own one.
    pub additional_origins: Option<Vec<TextMatch>>,
}

/// A condition on a text; one of the fields selects the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TextMatch {
    /// The whole text.
    pub exact: Option<Arc<str>>,
    /// The beginning of the text.
    pub prefix: Option<Arc<str>>,
    /// The end of the text.
    pub suffix: Option<Arc<str>>,
    /// Any part of the text.
    pub contains: Option<Arc<str>>,
    /// RE2 regular expression for the whole text.
    pub safe_regex: Option<Arc<str>>,
    /// Whether upper and lower case are equal.
    pub ignore_case: Option<bool>,
}

/// Settings of mirrored requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestMirror {
    /// Whether `-shadow` is not appended to the host.
    pub disable_shadow_host_suffix_append: Option<bool>,
    /// Host of mirrored requests.
    pub host_rewrite_literal: Option<Arc<str>>,
}

/// Buffering of whole requests before they are forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Buffer {
    /// Maximum size of a request.
    pub max_request_size: Option<Quantity>,
    /// Disables buffering, whatever less specific policies specify.
    pub disable: Option<Disable>,
}

/// Time limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// Time limit for a request.
    pub request: Option<Arc<str>>,
    /// Time limit for a stream without activity.
    pub stream_idle: Option<Arc<str>>,
}

/// Retries of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Conditions for a retry.
    pub retry_on: Option<Vec<Arc<str>>>,
    /// Number of retries, 1 where unset.
    pub attempts: Option<i64>,
    /// Time limit of one try.
    pub per_try_timeout: Option<Arc<str>>,
    /// Statuses that are retried.
    pub status_codes: Option<Vec<i64>>,
    /// First delay between retries, 25 ms where unset.
    pub backoff_base_interval: Option<Arc<str>>,
}

/// Redirects of backends that Envoy follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InternalRedirect {
    /// Statuses of redirects that are followed.
    pub redirect_response_codes: Option<Vec<i64>>,
    /// Whether a redirect to another scheme is followed.
    pub allow_cross_scheme_redirect: Option<bool>,
    /// Headers of the redirect that are copied to the next request.
    pub response_headers_to_copy: Option<Vec<Arc<str>>>,
    /// Maximum number of redirects in sequence.
    pub max_redirects: Option<i64>,
}

/// Rewrite of the path that backends receive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UrlRewrite {
    /// Rewrite by a regular expression.
    pub path_regex: Option<PathRegex>,
}

/// A rewrite of the path by a regular expression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathRegex {
    /// Regular expression of the text to replace.
    pub pattern: Arc<str>,
    /// Replacement.
    pub substitution: Arc<str>,
}

/// Compression and decompression of bodies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compression {
    /// Compression of response bodies.
    pub response_compression: Option<Codec>,
    /// Decompression of request bodies.
    pub request_decompression: Option<Codec>,
}

/// Settings of compression or decompression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Codec {
    /// `Gzip`, `Brotli` or `Zstd`; `Gzip` where unset.
    pub libraries: Option<Vec<Arc<str>>>,
    /// Disables it, whatever less specific policies specify.
    pub disable: Option<Disable>,
}

/// Tracing settings of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteTracing {
    /// Percentage of the requests with a client's demand for tracing that are traced.
    pub client_sampling: Option<i64>,
    /// Percentage of all other requests that are traced.
    pub random_sampling: Option<i64>,
    /// Maximum percentage of all requests that are traced.
    pub overall_sampling: Option<i64>,
    /// Additional attributes of spans.
    pub attributes: Option<Vec<Attribute>>,
    /// Disables tracing, whatever less specific policies specify.
    pub disable: Option<Disable>,
}

/// An attribute of spans; one of the fields beside the name is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attribute {
    /// Name.
    pub name: Arc<str>,
    /// A constant text.
    pub literal: Option<Literal>,
    /// An environment variable of the Envoy.
    pub environment: Option<NamedSource>,
    /// A header of the request.
    pub request_header: Option<NamedSource>,
    /// Metadata.
    pub metadata: Option<MetadataAttribute>,
}

/// A constant text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Literal {
    /// The text.
    pub value: Arc<str>,
}

/// A named source of a value, with a default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedSource {
    /// Name.
    pub name: Arc<str>,
    /// Value where the source is missing.
    pub default_value: Option<Arc<str>>,
}

/// A value in metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataAttribute {
    /// `Request`, `Route`, `Cluster` or `Host`.
    pub kind: Option<Arc<str>>,
    /// Position in the metadata.
    pub metadata_key: Option<MetadataKey>,
    /// Value where the metadata is missing.
    pub default_value: Option<Arc<str>>,
}

/// A position in metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataKey {
    /// Namespace.
    pub key: Arc<str>,
    /// Path of the value.
    #[serde(default)]
    pub path: Vec<PathSegment>,
}

/// A segment of the path of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathSegment {
    /// Key.
    pub key: Arc<str>,
}

/// Fault injection: deliberate delays and failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultInjection {
    /// Delays of requests.
    pub delay: Option<FaultDelay>,
    /// Aborts of requests.
    pub abort: Option<FaultAbort>,
    /// Slow responses.
    pub response_rate_limit: Option<FaultRate>,
    /// Maximum number of concurrent faults.
    pub max_active_faults: Option<i64>,
    /// Disables fault injection, whatever less specific policies specify.
    pub disable: Option<Disable>,
}

/// Delays of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultDelay {
    /// Duration of the delay.
    pub fixed_delay: Arc<str>,
    /// Percentage of the requests.
    pub percentage: Option<i64>,
}

/// Aborts of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultAbort {
    /// HTTP status.
    pub http_status: Option<i64>,
    /// gRPC status.
    pub grpc_status: Option<i64>,
    /// Percentage of the requests.
    pub percentage: Option<i64>,
}

/// Slow responses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultRate {
    /// Rate of the response, in Kibit per second.
    pub kbits_per_second: i64,
    /// Percentage of the responses.
    pub percentage: Option<i64>,
}
