//! Filters of ListenerPolicies that select requests for access logs and local replies for changes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A filter of requests: one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLogFilter {
    /// All of these filters match.
    pub and_filter: Option<Vec<AccessLogFilter>>,
    /// At least one of these filters matches.
    pub or_filter: Option<Vec<AccessLogFilter>>,
    /// A condition in CEL.
    pub cel_filter: Option<CelFilter>,
    /// Comparison of the duration.
    pub duration_filter: Option<Comparison>,
    /// Condition on the gRPC status.
    pub grpc_status_filter: Option<GrpcStatusFilter>,
    /// Condition on a header.
    pub header_filter: Option<LogHeaderFilter>,
    /// Requests that are not health checks.
    pub not_health_check_filter: Option<bool>,
    /// Condition on the response flags.
    pub response_flag_filter: Option<FlagFilter>,
    /// Random share of the requests.
    pub runtime_filter: Option<RuntimeFilter>,
    /// Comparison of the HTTP status.
    pub status_code_filter: Option<Comparison>,
    /// Requests that are traced.
    pub traceable_filter: Option<bool>,
}

/// A condition in CEL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CelFilter {
    /// The condition.
    #[serde(rename = "match")]
    pub condition: Arc<str>,
}

/// A comparison with a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// `EQ`, `GE` or `LE`.
    pub op: Arc<str>,
    /// Number to compare with.
    pub value: i64,
}

/// A condition on the gRPC status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcStatusFilter {
    /// Whether the statuses are excluded.
    pub exclude: Option<bool>,
    /// Names of the statuses.
    #[serde(default)]
    pub statuses: Vec<Arc<str>>,
}

/// A condition on a header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogHeaderFilter {
    /// The condition.
    pub header: HeaderMatch,
}

/// A condition on a header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderMatch {
    /// Name.
    pub name: Arc<str>,
    /// `Exact` or `RegularExpression`.
    #[serde(rename = "type")]
    pub kind: Option<Arc<str>>,
    /// Value.
    pub value: Arc<str>,
}

/// A condition on the response flags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlagFilter {
    /// Flags, of which at least one is set.
    #[serde(default)]
    pub flags: Vec<Arc<str>>,
}

/// A random share of the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeFilter {
    /// The share.
    pub percent_sampled: Option<Share>,
    /// The key in Envoy's runtime that overrides it.
    pub runtime_key: Arc<str>,
    /// Whether each log decides independently.
    pub use_independent_randomness: Option<bool>,
}

/// A share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// `HUNDRED`, `TEN_THOUSAND` or `MILLION`.
    pub denominator: Option<Arc<str>>,
    /// Numerator.
    pub numerator: i64,
}
