//! Contents that an acknowledged resource proves, from its bytes.

use holdfast_envoy::inspect::chain_parts::{self, ChainParts};
use holdfast_envoy::inspect::clusters::shape;
use holdfast_envoy::inspect::routes;
use holdfast_graph::Content;
use holdfast_xds::{Resource, ResourceType};

/// Returns the contents that an acknowledged resource proves.
pub(super) fn proven(kind: ResourceType, resource: &Resource) -> Vec<Content> {
    match kind {
        ResourceType::Route => routes::contents(&resource.body),
        ResourceType::Cluster => vec![shape(&resource.body), Content(*resource.version.as_bytes())],
        ResourceType::Listener => listener_contents(&resource.body),
        ResourceType::Endpoints | ResourceType::Secret => Vec::new(),
    }
}

/// Returns the contents that an acknowledged listener proves.
pub(super) fn listener_contents(body: &[u8]) -> Vec<Content> {
    let contents =
        |parts: ChainParts| parts.filters.into_iter().chain([parts.own, parts.placed]).chain(parts.forwarding);
    chain_parts::parts(body).into_iter().flat_map(contents).collect()
}
