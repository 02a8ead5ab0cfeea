//! GRPCRoute. Its filters and backends have the form of those of an HTTPRoute, and are a subset of them.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#grpcroute>

use std::sync::Arc;

use gateway_api::grpcroutes::GrpcRouteRulesMatches;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::filter::RouteFilter;
use super::references::BackendRef;
use super::route::{self, RouteRule};
use super::session::SessionPersistence;
use crate::apis::Body;
use crate::apis::decode::Found;

/// A rule of a GRPCRoute.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRule {
    /// Name, unique within the route.
    pub name: Option<Arc<str>>,
    /// Matches; a call must meet at least one of them.
    pub matches: Option<Vec<GrpcRouteRulesMatches>>,
    /// Filters.
    pub filters: Option<Vec<RouteFilter>>,
    /// Backends.
    pub backend_refs: Option<Vec<BackendRef>>,
    /// Session persistence, a field of the experimental channel.
    pub session_persistence: Option<SessionPersistence>,
}

impl RouteRule for GrpcRule {
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
    route::decode_spec(&mut document, found).map(|route| Body::GrpcRoute(Arc::new(route)))
}
