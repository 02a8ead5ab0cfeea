//! Configuration of HTTPProxies that must never be served: hosts that no current root claims, Services of another
//! namespace, routes with other guards than the current routes for the same requests.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};
use holdfast_api::apis::Body;
use holdfast_engine::engine::Event;
use holdfast_xds::{ResourceType, Snapshot};
use prost::Message;

use super::envoy::Envoy;
use super::stage::StoryStage;

/// Checks one Envoy; `wanted` is its configuration without any refusal.
pub(super) fn served(stage: &StoryStage, envoy: &Envoy, wanted: &Snapshot, wrong: &mut Vec<String>) {
    let hosts = hosts(stage);
    for ((kind, name), resource) in &envoy.taken {
        if *kind != ResourceType::Route {
            continue;
        }
        let served = RouteConfiguration::decode(&*resource.body).unwrap_or_default();
        let desired = wanted.get(*kind, name).map(|resource| RouteConfiguration::decode(&*resource.body));
        let desired = desired.and_then(Result::ok).unwrap_or_default();
        for host in &served.virtual_hosts {
            let other = desired.virtual_hosts.iter().find(|other| other.domains == host.domains);
            for route in host.routes.iter().filter(|route| route.name.starts_with("httpproxy/") && forwards(route)) {
                if !host.domains.iter().all(|domain| hosts.contains(domain)) {
                    let unclaimed = format!("{} for {:?}, which no root claims", route.name, host.domains);
                    wrong.push(format!("{} serves {unclaimed}", envoy.id.node));
                }
                one(envoy, route, other, wrong);
            }
        }
    }
}

/// The hosts of the current roots.
fn hosts(stage: &StoryStage) -> BTreeSet<String> {
    let fqdn = |event: &Event| match event {
        Event::Applied(object, _) => match &object.body {
            Body::HttpProxy(proxy) => proxy.virtual_host.as_ref().map(|host| host.fqdn.to_string()),
            _ => None,
        },
        _ => None,
    };
    stage.objects.values().filter_map(fqdn).chain(stage.claimed.iter().cloned()).collect()
}

fn forwards(route: &Route) -> bool {
    matches!(route.action, Some(Action::Route(_)))
}

/// Checks a route that forwards against the desired route for the same requests.
fn one(envoy: &Envoy, route: &Route, desired: Option<&VirtualHost>, wrong: &mut Vec<String>) {
    let node = &envoy.id.node;
    let namespace = route.name.split('/').nth(1).unwrap_or_default();
    for cluster in super::never::clusters(route) {
        if cluster.strip_prefix("service/").is_some_and(|service| service.split('/').next() != Some(namespace)) {
            wrong.push(format!("{node} serves {} to {cluster}, of another namespace", route.name));
        }
    }
    let same = desired.and_then(|host| host.routes.iter().find(|other| other.r#match == route.r#match));
    let Some(same) = same.filter(|same| forwards(same)) else { return };
    let lost = same
        .typed_per_filter_config
        .iter()
        .find(|(name, guard)| route.typed_per_filter_config.get(*name) != Some(guard));
    if let Some((name, _)) = lost {
        wrong.push(format!("{node} serves {} without {name} of {}", route.name, same.name));
    }
}
