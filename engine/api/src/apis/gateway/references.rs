//! References to parents and to backends, as in Gateway API.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::filter::RouteFilter;

/// A reference to the parent of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentRef {
    /// Group, `gateway.networking.k8s.io` where unset.
    pub group: Option<Arc<str>>,
    /// Kind, `Gateway` where unset.
    pub kind: Option<Arc<str>>,
    /// Namespace, that of the route where unset.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
    /// Name of one listener.
    pub section_name: Option<Arc<str>>,
    /// Port of the listeners to attach to.
    pub port: Option<i32>,
}

/// A reference to a backend of a rule.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendRef {
    /// Group, the core group where unset.
    pub group: Option<Arc<str>>,
    /// Kind, `Service` where unset.
    pub kind: Option<Arc<str>>,
    /// Namespace, that of the route where unset.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
    /// Port, required for Services.
    pub port: Option<i32>,
    /// Share of the requests, 1 where unset.
    pub weight: Option<i32>,
    /// Filters for requests to this backend only.
    pub filters: Option<Vec<RouteFilter>>,
}
