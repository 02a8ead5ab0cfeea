//! Configuration that must never be served: checked in the bytes that Envoys have, after every step.

use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration};
use holdfast_api::apis::Body;
use holdfast_api::object::Object;
use holdfast_engine::engine::Event;
use holdfast_graph::ObjectKey;
use holdfast_test_support::scopes::ScopeSeen;
use holdfast_xds::{ResourceType, Snapshot};
use prost::Message;

use super::envoy::Envoy;
use super::expect::name;
use super::stage::StoryStage;
use super::{never_connections, never_policies, never_rules};

/// Checks one Envoy.
pub fn served(stage: &StoryStage, envoy: &Envoy, wanted: &Snapshot, wrong: &mut Vec<String>) {
    for ((kind, _), resource) in &envoy.taken {
        if *kind != ResourceType::Route {
            continue;
        }
        let configuration = RouteConfiguration::decode(&*resource.body).unwrap_or_default();
        if configuration.virtual_hosts.is_empty() {
            wrong.push(format!("{} has an empty route configuration", envoy.id.node));
        }
        for host in &configuration.virtual_hosts {
            for route in host.routes.iter().filter(|route| !is_closed(route)) {
                one(stage, envoy, &host.domains, route, wrong);
                if let Some(key) = owner(stage, &route.name) {
                    never_policies::guarded(stage, envoy, (&configuration, host, route), key, wrong);
                    never_rules::protected(stage, envoy, route, key, wrong);
                }
            }
        }
    }
    never_connections::forwarded(stage, envoy, wrong);
    let listens = envoy.taken.keys().any(|(kind, _)| *kind == ResourceType::Listener);
    if !listens && !wanted.of(ResourceType::Listener).is_empty() {
        wrong.push(format!("{} has no listeners", envoy.id.node));
    }
}

fn is_closed(route: &Route) -> bool {
    matches!(route.action, Some(Action::DirectResponse(_)))
}

/// Returns the object of a route, if it exists.
fn owner<'a>(stage: &'a StoryStage, route: &str) -> Option<&'a ObjectKey> {
    let parts: Vec<&str> = route.split('/').collect();
    let [kind, namespace, own, ..] = parts[..] else { return None };
    let is_owner =
        |key: &&ObjectKey| key.kind.eq_ignore_ascii_case(kind) && *key.namespace == *namespace && *key.name == *own;
    stage.objects.keys().find(is_owner)
}

/// Checks a route that forwards or redirects.
fn one(stage: &StoryStage, envoy: &Envoy, domains: &[String], route: &Route, wrong: &mut Vec<String>) {
    let parts: Vec<&str> = route.name.split('/').collect();
    let [_, namespace, _, rule, ..] = parts[..] else { return };
    let node = &envoy.id.node;
    let Some(key) = owner(stage, &route.name) else {
        wrong.push(format!("{node} serves {}, whose object is gone", route.name));
        return;
    };
    for cluster in clusters(route) {
        let Some(service) = cluster.strip_prefix("service/") else { continue };
        let to = service.split('/').next().unwrap_or_default();
        if to != namespace && !is_granted(stage, namespace, to) {
            wrong.push(format!("{node} serves {} to {cluster} without a grant", route.name));
        }
    }
    let Some(Event::Applied(object, _)) = stage.objects.get(key) else { return };
    let Object { body: Body::HttpRoute(desired), .. } = &**object else { return };
    // An object with an invalid hostname may fall back to the hostnames that it claimed before.
    let falls_back = desired.hostnames.iter().any(|name| holdfast_check::host::hostname(name).is_err());
    let before = stage.named.get(key).into_iter().flatten().filter(|_| falls_back);
    let claimed = |domain: &String| {
        let mut names = desired.hostnames.iter().chain(before.clone());
        names.any(|hostname| **hostname == **domain)
    };
    if !desired.hostnames.is_empty() && !domains.iter().all(claimed) {
        wrong.push(format!("{node} serves {} for {domains:?}, which it does not claim", route.name));
    }
    if desired.uses_default_gateways && desired.parents.is_empty() && is_no_default(stage, &envoy.id.fleet) {
        wrong.push(format!("{node} serves {} at a Gateway that is no default Gateway", route.name));
    }
    let index = rule.parse().unwrap_or(usize::MAX);
    // Filters of known kinds are checked for their effect elsewhere.
    let is_unknown = |rule: String| rule.contains("ExtensionRef") && !rule.contains("gateway.kgateway.dev");
    if desired.rules.get(index).is_some_and(|rule| is_unknown(format!("{rule:?}"))) {
        wrong.push(format!("{node} serves {} without its guard", route.name));
    }
}

/// Returns whether a Gateway exists, can be read and is no default Gateway.
fn is_no_default(stage: &StoryStage, gateway: &str) -> bool {
    stage.objects.iter().any(|(key, event)| match event {
        Event::Applied(object, _) => match &object.body {
            Body::Gateway(own) => key.namespaced_name() == gateway && !own.is_default && !own.is_scope_lost,
            _ => false,
        },
        _ => false,
    })
}

/// The clusters that a route refers to.
pub(super) fn clusters(route: &Route) -> Vec<&str> {
    let Some(Action::Route(action)) = &route.action else { return Vec::new() };
    match &action.cluster_specifier {
        Some(ClusterSpecifier::Cluster(name)) => vec![name],
        Some(ClusterSpecifier::WeightedClusters(weighted)) => weighted.clusters.iter().map(|c| &*c.name).collect(),
        _ => Vec::new(),
    }
}

pub(super) fn is_granted(stage: &StoryStage, from: &str, to: &str) -> bool {
    stage.objects.values().any(|event| match event {
        Event::Applied(object, _) => match &object.body {
            Body::ReferenceGrant(_) => *object.key.namespace == *to && *object.key.name == *from,
            _ => false,
        },
        _ => false,
    })
}

/// Checks that no version is kept of a deleted object, or of an earlier object with the same name.
pub fn kept(stage: &StoryStage, scope: &ScopeSeen, wrong: &mut Vec<String>) {
    for (key, uid) in &scope.last_valid_uids {
        match stage.objects.get(key) {
            // A deleted policy still applies for a moment.
            None if &*key.kind == "TrafficPolicy" && stage.knows(key) => {}
            None => wrong.push(format!("{} is gone, and a version of it is kept", name(key))),
            Some(Event::Applied(object, _)) if object.metadata.uid != *uid => {
                wrong.push(format!("{} is another one, and a version of the old one is kept", name(key)));
            }
            Some(_) => {}
        }
    }
}
