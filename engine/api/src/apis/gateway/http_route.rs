//! HTTPRoute.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#httproute>

use std::sync::Arc;

use gateway_api::httproutes::{HttpRouteRulesMatches, HttpRouteRulesTimeouts};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::filter::RouteFilter;
use super::references::BackendRef;
use super::route::{self, RouteRule};
use super::session::SessionPersistence;
use crate::apis::Body;
use crate::apis::decode::Found;

/// A rule of an HTTPRoute.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRule {
    /// Name, unique within the route.
    pub name: Option<Arc<str>>,
    /// Matches; a request must meet at least one of them.
    pub matches: Option<Vec<HttpRouteRulesMatches>>,
    /// Filters.
    pub filters: Option<Vec<RouteFilter>>,
    /// Backends.
    pub backend_refs: Option<Vec<BackendRef>>,
    /// Time limits.
    pub timeouts: Option<HttpRouteRulesTimeouts>,
    /// Retries, a field of the experimental channel.
    pub retry: Option<HttpRetry>,
    /// Session persistence, a field of the experimental channel.
    pub session_persistence: Option<SessionPersistence>,
}

/// Retries of the requests of a rule.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct HttpRetry {
    /// Response statuses that are retried, from 400 to 599.
    pub codes: Option<Vec<i64>>,
    /// Maximum number of retries, at least 1.
    pub attempts: Option<i64>,
    /// Base interval between retries, as a duration of Gateway API.
    pub backoff: Option<Arc<str>>,
}

impl RouteRule for HttpRule {
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn filters(&self) -> &[RouteFilter] {
        self.filters.as_deref().unwrap_or_default()
    }

    fn backends(&self) -> &[BackendRef] {
        self.backend_refs.as_deref().unwrap_or_default()
    }

    fn written_matches(&self) -> Vec<Value> {
        route::written_matches(self.matches.as_deref().unwrap_or_default())
    }

    fn has_matches_of(&self, other: &Self) -> bool {
        self.matches == other.matches
    }
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    route::decode_spec(&mut document, found).map(|route| Body::HttpRoute(Arc::new(route)))
}
