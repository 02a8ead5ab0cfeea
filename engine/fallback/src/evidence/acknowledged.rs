//! Contents that an acknowledged resource proves, from its bytes.

use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use holdfast_envoy::encode::chain_parts;
use holdfast_graph::Content;
use holdfast_xds::{Resource, ResourceType, Version};
use prost::Message;

use super::shapes::shape;
use crate::scope::FallbackScope;

impl FallbackScope {
    /// Records content that was acknowledged in an earlier run, or by Envoys of another replica, as proven.
    pub(crate) fn prove_restored(&mut self, kind: ResourceType, resource: &Resource) {
        proven(kind, resource).into_iter().for_each(|content| self.proof.prove(content));
    }
}

/// Returns the contents that an acknowledged resource proves.
fn proven(kind: ResourceType, resource: &Resource) -> Vec<Content> {
    match kind {
        ResourceType::Route => route_contents(&resource.body),
        ResourceType::Cluster => vec![shape(&resource.body), Content(*resource.version.as_bytes())],
        ResourceType::Listener => listener_contents(&resource.body),
        ResourceType::Endpoints | ResourceType::Secret => Vec::new(),
    }
}

/// Returns the parts of a route configuration: each route with its bytes.
fn route_contents(body: &[u8]) -> Vec<Content> {
    let Ok(configuration) = RouteConfiguration::decode(body) else { return Vec::new() };
    let routes = configuration.virtual_hosts.iter().flat_map(|host| &host.routes);
    routes.map(|route| Content(*Version::of(&route.encode_to_vec()).as_bytes())).collect()
}

/// Returns the contents that an acknowledged listener proves.
pub(super) fn listener_contents(body: &[u8]) -> Vec<Content> {
    chain_parts::parts(body).into_iter().flat_map(|parts| parts.filters.into_iter().chain([parts.own])).collect()
}
