//! Fields of TrafficPolicies about the way that requests take.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::policy::{Disable, Quantity};

/// Cross-origin requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// Origins.
    pub allow_origins: Option<Vec<String>>,
    /// May cookies and the like be sent?
    pub allow_credentials: Option<bool>,
    /// Methods.
    pub allow_methods: Option<Vec<String>>,
    /// Request headers.
    pub allow_headers: Option<Vec<String>>,
    /// Response headers that scripts may see.
    pub expose_headers: Option<Vec<String>>,
    /// Seconds that a preflight's answer may be kept.
    pub max_age: Option<i64>,
    /// None at all, whatever is said elsewhere.
    pub disable: Option<Disable>,
}

/// Requests that other sites make in somebody's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Csrf {
    /// The share of requests that are judged, in percent.
    pub percentage_enabled: Option<i64>,
    /// The share of requests that are judged without consequence, in percent.
    pub percentage_shadowed: Option<i64>,
    /// Origins that are as good as one's own.
    pub additional_origins: Option<Vec<TextMatch>>,
}

/// A text; one of the fields says how it is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TextMatch {
    /// All of it.
    pub exact: Option<Arc<str>>,
    /// Its beginning.
    pub prefix: Option<Arc<str>>,
    /// Its end.
    pub suffix: Option<Arc<str>>,
    /// Any part.
    pub contains: Option<Arc<str>>,
    /// RE2 on all of it.
    pub safe_regex: Option<Arc<str>>,
    /// Are upper and lower case the same?
    pub ignore_case: Option<bool>,
}

/// How copies of requests are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestMirror {
    /// Is their host left without `-shadow`?
    pub disable_shadow_host_suffix_append: Option<bool>,
    /// Their host.
    pub host_rewrite_literal: Option<Arc<str>>,
}

/// Requests are taken in whole before they go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Buffer {
    /// The largest that is taken.
    pub max_request_size: Option<Quantity>,
    /// They are not, whatever is said elsewhere.
    pub disable: Option<Disable>,
}

/// Time limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// For a request.
    pub request: Option<Arc<str>>,
    /// For a stream on which nothing happens.
    pub stream_idle: Option<Arc<str>>,
}

/// When requests are tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// On what.
    pub retry_on: Option<Vec<Arc<str>>>,
    /// How often, 1 where unset.
    pub attempts: Option<i64>,
    /// Time limit of one try.
    pub per_try_timeout: Option<Arc<str>>,
    /// On these statuses.
    pub status_codes: Option<Vec<i64>>,
    /// The first pause, 25 ms where unset.
    pub backoff_base_interval: Option<Arc<str>>,
}

/// Redirects of back ends that are followed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InternalRedirect {
    /// Of these statuses.
    pub redirect_response_codes: Option<Vec<i64>>,
    /// From one scheme to the other?
    pub allow_cross_scheme_redirect: Option<bool>,
    /// Headers of the redirect that go into the next request.
    pub response_headers_to_copy: Option<Vec<Arc<str>>>,
    /// How many, one after the other.
    pub max_redirects: Option<i64>,
}

/// The path that back ends see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UrlRewrite {
    /// By a regular expression.
    pub path_regex: Option<PathRegex>,
}

/// A path rewritten by a regular expression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathRegex {
    /// What is replaced.
    pub pattern: Arc<str>,
    /// What comes in its place.
    pub substitution: Arc<str>,
}

/// Bodies are compressed and expanded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compression {
    /// Bodies of responses are compressed.
    pub response_compression: Option<Codec>,
    /// Bodies of requests are expanded.
    pub request_decompression: Option<Codec>,
}

/// How bodies are compressed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Codec {
    /// `Gzip`, `Brotli` or `Zstd`; the first where unset.
    pub libraries: Option<Vec<Arc<str>>>,
    /// They are not, whatever is said elsewhere.
    pub disable: Option<Disable>,
}

/// What is recorded of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteTracing {
    /// The share of requests for which clients ask, in percent.
    pub client_sampling: Option<i64>,
    /// The share of all others, in percent.
    pub random_sampling: Option<i64>,
    /// The most of both, in percent.
    pub overall_sampling: Option<i64>,
    /// What is recorded besides.
    pub attributes: Option<Vec<Attribute>>,
    /// Nothing, whatever is said elsewhere.
    pub disable: Option<Disable>,
}

/// Something that is recorded; one of the fields beside the name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attribute {
    /// Name.
    pub name: Arc<str>,
    /// A text.
    pub literal: Option<Literal>,
    /// A variable of Envoy's environment.
    pub environment: Option<Named>,
    /// A header of the request.
    pub request_header: Option<Named>,
    /// Metadata.
    pub metadata: Option<MetadataAttribute>,
}

/// A text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Literal {
    /// The text.
    pub value: Arc<str>,
}

/// Something by name, and what is recorded where it is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// Name.
    pub name: Arc<str>,
    /// What is recorded otherwise.
    pub default_value: Option<Arc<str>>,
}

/// Metadata that is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataAttribute {
    /// `Request`, `Route`, `Cluster` or `Host`.
    pub kind: Option<Arc<str>>,
    /// Where in it.
    pub metadata_key: Option<MetadataKey>,
    /// What is recorded otherwise.
    pub default_value: Option<Arc<str>>,
}

/// A place in metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataKey {
    /// Namespace.
    pub key: Arc<str>,
    /// The way to the value.
    #[serde(default)]
    pub path: Vec<PathSegment>,
}

/// A step of the way to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathSegment {
    /// Key.
    pub key: Arc<str>,
}

/// Requests that are delayed or fail on purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultInjection {
    /// Some wait.
    pub delay: Option<FaultDelay>,
    /// Some fail.
    pub abort: Option<FaultAbort>,
    /// Some answers are slow.
    pub response_rate_limit: Option<FaultRate>,
    /// The most that are under way at a time.
    pub max_active_faults: Option<i64>,
    /// None at all, whatever is said elsewhere.
    pub disable: Option<Disable>,
}

/// Some requests wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultDelay {
    /// How long.
    pub fixed_delay: Arc<str>,
    /// How many, in percent.
    pub percentage: Option<i64>,
}

/// Some requests fail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultAbort {
    /// With this status.
    pub http_status: Option<i64>,
    /// With this status of gRPC.
    pub grpc_status: Option<i64>,
    /// How many, in percent.
    pub percentage: Option<i64>,
}

/// Some answers are slow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultRate {
    /// How fast they are, in kibit each second.
    pub kbits_per_second: i64,
    /// How many, in percent.
    pub percentage: Option<i64>,
}
