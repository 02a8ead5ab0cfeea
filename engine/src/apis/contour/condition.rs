//! Conditions of routes and includes: which requests are meant.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A condition: one of its fields is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MatchCondition {
    /// The path begins with this text.
    pub prefix: Option<Arc<str>>,
    /// The whole path.
    pub exact: Option<Arc<str>>,
    /// RE2 on the whole path.
    pub regex: Option<Arc<str>>,
    /// A header.
    pub header: Option<HeaderCondition>,
    /// A query parameter.
    pub query_parameter: Option<QueryCondition>,
}

/// What a header must be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderCondition {
    /// Name.
    pub name: Arc<str>,
    /// It is there.
    pub present: Option<bool>,
    /// It is not there.
    pub notpresent: Option<bool>,
    /// It contains a text.
    pub contains: Option<Arc<str>>,
    /// It does not contain a text.
    pub notcontains: Option<Arc<str>>,
    /// It is this text.
    pub exact: Option<Arc<str>>,
    /// It is not this text.
    pub notexact: Option<Arc<str>>,
    /// RE2 on the whole value.
    pub regex: Option<Arc<str>>,
    /// Upper and lower case are the same.
    pub ignore_case: Option<bool>,
    /// A header that is not there counts as an empty one.
    pub treat_missing_as_empty: Option<bool>,
}

/// What a query parameter must be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryCondition {
    /// Name.
    pub name: Arc<str>,
    /// It is this text.
    pub exact: Option<Arc<str>>,
    /// It begins with a text.
    pub prefix: Option<Arc<str>>,
    /// It ends with a text.
    pub suffix: Option<Arc<str>>,
    /// RE2 on the whole value.
    pub regex: Option<Arc<str>>,
    /// It contains a text.
    pub contains: Option<Arc<str>>,
    /// Upper and lower case are the same.
    pub ignore_case: Option<bool>,
    /// It is there.
    pub present: Option<bool>,
}
