//! Match conditions of routes and includes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A condition: one of its fields is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MatchCondition {
    /// Prefix of the path.
    pub prefix: Option<Arc<str>>,
    /// Exact path.
    pub exact: Option<Arc<str>>,
    /// RE2 regular expression for the whole path.
    pub regex: Option<Arc<str>>,
    /// Condition on a header.
    pub header: Option<HeaderCondition>,
    /// Condition on a query parameter.
    pub query_parameter: Option<QueryCondition>,
}

/// Condition on a header.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderCondition {
    /// Name.
    pub name: Arc<str>,
    /// The header is present.
    pub present: Option<bool>,
    /// The header is absent.
    pub notpresent: Option<bool>,
    /// The value contains this text.
    pub contains: Option<Arc<str>>,
    /// The value does not contain this text.
    pub notcontains: Option<Arc<str>>,
    /// The value equals this text.
    pub exact: Option<Arc<str>>,
    /// The value differs from this text.
    pub notexact: Option<Arc<str>>,
    /// RE2 regular expression for the whole value.
    pub regex: Option<Arc<str>>,
    /// Whether upper and lower case are equal.
    pub ignore_case: Option<bool>,
    /// Whether a missing header counts as an empty one.
    pub treat_missing_as_empty: Option<bool>,
}

/// Condition on a query parameter.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryCondition {
    /// Name.
    pub name: Arc<str>,
    /// The value equals this text.
    pub exact: Option<Arc<str>>,
    /// The value begins with this text.
    pub prefix: Option<Arc<str>>,
    /// The value ends with this text.
    pub suffix: Option<Arc<str>>,
    /// RE2 regular expression for the whole value.
    pub regex: Option<Arc<str>>,
    /// The value contains this text.
    pub contains: Option<Arc<str>>,
    /// Whether upper and lower case are equal.
    pub ignore_case: Option<bool>,
    /// The parameter is present.
    pub present: Option<bool>,
}
