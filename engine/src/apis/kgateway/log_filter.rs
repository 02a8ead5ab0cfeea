//! Which requests are written down, and which answers are changed, as ListenerPolicies say it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Which requests: one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    /// All of these.
    pub and_filter: Option<Vec<Filter>>,
    /// Any of these.
    pub or_filter: Option<Vec<Filter>>,
    /// A condition in CEL.
    pub cel_filter: Option<CelFilter>,
    /// By how long they took.
    pub duration_filter: Option<Comparison>,
    /// By the status of gRPC.
    pub grpc_status_filter: Option<GrpcStatusFilter>,
    /// By a header.
    pub header_filter: Option<HeaderFilter>,
    /// Those that are no checks of health.
    pub not_health_check_filter: Option<bool>,
    /// By flags of the response.
    pub response_flag_filter: Option<FlagFilter>,
    /// A share of them.
    pub runtime_filter: Option<RuntimeFilter>,
    /// By the status of HTTP.
    pub status_code_filter: Option<Comparison>,
    /// Those that are traced.
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

/// A number that is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// `EQ`, `GE` or `LE`.
    pub op: Arc<str>,
    /// With what.
    pub value: i64,
}

/// Statuses of gRPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcStatusFilter {
    /// All but these?
    pub exclude: Option<bool>,
    /// Their names.
    #[serde(default)]
    pub statuses: Vec<Arc<str>>,
}

/// A header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderFilter {
    /// What it must be.
    pub header: HeaderMatch,
}

/// What a header must be.
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

/// Flags of responses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlagFilter {
    /// Any of these.
    #[serde(default)]
    pub flags: Vec<Arc<str>>,
}

/// A share of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeFilter {
    /// The share.
    pub percent_sampled: Option<Share>,
    /// The key in Envoy's runtime that overrides it.
    pub runtime_key: Arc<str>,
    /// Is it decided anew for each log?
    pub use_independent_randomness: Option<bool>,
}

/// A share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// `HUNDRED`, `TEN_THOUSAND` or `MILLION`.
    pub denominator: Option<Arc<str>>,
    /// How many of these.
    pub numerator: i64,
}
