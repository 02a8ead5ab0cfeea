//! Route configurations: an entry for each route, in Envoy's order.

use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::{Route, RouteAction, RouteConfiguration, VirtualHost};
use holdfast_xds::Resource;
use prost::Message;

use super::ListedEntry;
use crate::encode::names;
use crate::explain::{host, matching};

pub(super) fn entries(resource: &Resource, wanted: Option<&str>) -> Vec<ListedEntry> {
    let Ok(configuration) = RouteConfiguration::decode(&*resource.body) else {
        return ListedEntry::undecodable(resource);
    };
    let hosts: Vec<&VirtualHost> = match wanted {
        Some(wanted) => {
            host::choose(&configuration, wanted.trim_end_matches('.')).into_iter().map(|(host, _)| host).collect()
        }
        None => configuration.virtual_hosts.iter().collect(),
    };
    let of_host = |host: &&VirtualHost| {
        let entry = |route| ListedEntry { host: Some(host.name.clone()), ..of_route(resource, route) };
        host.routes.iter().map(entry).collect::<Vec<_>>()
    };
    hosts.iter().flat_map(of_host).collect()
}

fn of_route(resource: &Resource, route: &Route) -> ListedEntry {
    let matches = route.r#match.as_ref().map(matching::conditions).unwrap_or_default();
    let rule = names::rule_of_route(&route.name).map(|rule| format!("{rule}: ")).unwrap_or_default();
    ListedEntry::new(resource, matches, format!("{rule}{}", action(route)))
        .owned_by(names::object_of_route(&route.name))
}

fn action(route: &Route) -> String {
    match &route.action {
        Some(Action::Route(action)) => forward(action),
        Some(Action::DirectResponse(response)) => format!("answers {}", response.status),
        Some(Action::Redirect(_)) => "redirects".into(),
        _ => "another action".into(),
    }
}

fn forward(action: &RouteAction) -> String {
    match &action.cluster_specifier {
        Some(ClusterSpecifier::Cluster(name)) => format!("to {name}"),
        Some(ClusterSpecifier::WeightedClusters(several)) => {
            let weight = |weight: Option<u32>| weight.unwrap_or_default();
            let shares = several
                .clusters
                .iter()
                .map(|one| format!("{} (weight {})", one.name, weight(one.weight.map(|weight| weight.value))));
            format!("to {}", shares.collect::<Vec<_>>().join(", "))
        }
        _ => "to a cluster of another kind".into(),
    }
}
