//! GRPCRoute. Its filters and back ends have the form of HTTPRoute's, a subset of them.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#grpcroute>

use std::sync::Arc;

use gateway_api::grpcroutes::GrpcRouteRulesMatches;
use gateway_api::httproutes::HttpRouteRulesFilters;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::references::BackendRef;
use super::route::{self, Rule};
use crate::apis::Body;
use crate::apis::decode::Found;

/// A rule of a GRPCRoute.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRule {
    /// Name, unique within the route.
    pub name: Option<Arc<str>>,
    /// Which calls it is for; any of them.
    pub matches: Option<Vec<GrpcRouteRulesMatches>>,
    /// What is done to them.
    pub filters: Option<Vec<HttpRouteRulesFilters>>,
    /// Where they go.
    pub backend_refs: Option<Vec<BackendRef>>,
}

impl Rule for GrpcRule {
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn filters(&self) -> &[HttpRouteRulesFilters] {
        self.filters.as_deref().unwrap_or_default()
    }

    fn backends(&self) -> &[BackendRef] {
        self.backend_refs.as_deref().unwrap_or_default()
    }
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    route::decode_spec(&mut document, found).map(|route| Body::GrpcRoute(Arc::new(route)))
}
