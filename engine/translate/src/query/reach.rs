//! Parts of route objects that requests reach: an earlier route of a host, of any object, may get every request of a
//! part, and a policy of a Gateway or listener may close the host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_envoy::model::Route;
use holdfast_envoy::model::containment::RequestSet;
use holdfast_envoy::model::placeholder::ComparedRoute;
use holdfast_graph::Node;

use crate::assembly::fleet::Fleet;
use crate::outcome::route::Rendered;

/// Returns the hosts at which a request reaches each of these parts in a fleet.
pub(super) fn reached_hosts(fleet: &Fleet, parts: &BTreeSet<Node>) -> BTreeMap<Node, BTreeSet<Arc<str>>> {
    let mut reached: BTreeMap<Node, BTreeSet<Arc<str>>> = BTreeMap::new();
    for (table, host, routes) in fleet.hosts_in_order() {
        if fleet.closing(table, host).is_some() {
            continue;
        }
        let routes: Vec<&Rendered> = routes.collect();
        for node in reached_parts(&routes, parts) {
            reached.entry(node).or_default().insert(host.domain().into());
        }
    }
    reached
}

/// Returns the parts that a request to a host reaches.
fn reached_parts(routes: &[&Rendered], parts: &BTreeSet<Node>) -> BTreeSet<Node> {
    let nodes: Vec<Node> = routes.iter().map(|rendered| rendered.node()).collect();
    if !nodes.iter().any(|node| parts.contains(node)) {
        return BTreeSet::new();
    }
    let sets = routes.iter().map(|rendered| (&rendered.route, RequestSet::new(&rendered.route.matches)));
    let all: Vec<(Node, (&Route, RequestSet<'_>))> = nodes.into_iter().zip(sets).collect();
    let mut reached = BTreeSet::new();
    for (index, (node, own)) in all.iter().enumerate() {
        if !parts.contains(node) || reached.contains(node) {
            continue;
        }
        let mut before = all.iter().take(index).filter(|(other, _)| other != node);
        if !before.any(|(_, earlier)| takes_all(earlier, own)) {
            reached.insert(node.clone());
        }
    }
    reached
}

/// Returns whether an earlier route gets every request of a route. A placeholder keeps some from earlier routes.
fn takes_all((earlier, all): &(&Route, RequestSet<'_>), (route, requests): &(&Route, RequestSet<'_>)) -> bool {
    let keeps = || ComparedRoute::new(route).overlap(&ComparedRoute::new(earlier)).is_some();
    requests.is_within(all) && (route.placeholder.is_none() || !keeps())
}
