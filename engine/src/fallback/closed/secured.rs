//! Whoever is held must speak to back ends as securely as policies of today ask for.

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use holdfast_graph::ObjectKey;
use holdfast_xds::ResourceType;
use prost::Message;

use super::Held;
use crate::apis::kgateway;
use crate::apis::scheme;
use crate::fallback::around::Around;
use crate::fallback::line::Line;

/// The object of which a cluster is, and the port, by its name.
pub(super) fn place(cluster: &str) -> Option<(ObjectKey, Option<u16>)> {
    let mut parts = cluster.split('/');
    match (parts.next()?, parts.next()?, parts.next()?) {
        ("service", namespace, name) => Some((scheme::service_key(namespace, name), parts.next()?.parse().ok())),
        ("backend", namespace, name) => Some((ObjectKey::new(kgateway::GROUP, "Backend", namespace, name), None)),
        _ => None,
    }
}

/// Does a cluster that was acknowledged speak as policies of today ask for?
pub(super) fn is_secured(line: &Line, cluster: &str, by: &Held<'_>, around: &Around<'_>) -> bool {
    let Some((place, port)) = place(cluster) else { return true };
    let Some(wanted) = around.translator.secured(&place, port, around.objects) else { return true };
    let held = line.hold.acknowledged(ResourceType::Cluster, &cluster.into());
    let held = held.and_then(|held| Cluster::decode(&held.body[..]).ok()).and_then(|held| held.transport_socket);
    // While what is asked for is tried, a back end goes on with the TLS that it had.
    held.is_some_and(|socket| by.meanwhile.is_some() || wanted.contains(&socket))
}
