//! The hosts of published route configurations, each with the objects that have routes of it.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use holdfast_graph::ObjectKey;
use holdfast_xds::{ResourceType, Snapshot};
use prost::Message;

use crate::encode::names;

/// Returns the hosts of a Gateway, as the domains of virtual hosts. The objects are HTTPRoutes, GRPCRoutes and
/// HTTPProxies. A route configuration that cannot be decoded, which none of Holdfast is known to be, has no hosts.
pub fn hosts(snapshot: &Snapshot) -> BTreeMap<String, BTreeSet<ObjectKey>> {
    let mut hosts = BTreeMap::<String, BTreeSet<ObjectKey>>::new();
    for resource in snapshot.of(ResourceType::Route).values() {
        let Ok(configuration) = RouteConfiguration::decode(&*resource.body) else { continue };
        for host in configuration.virtual_hosts {
            let owners: Vec<ObjectKey> =
                host.routes.iter().filter_map(|route| names::object_of_route(&route.name)).collect();
            for domain in host.domains {
                hosts.entry(domain).or_default().extend(owners.iter().cloned());
            }
        }
    }
    hosts
}
