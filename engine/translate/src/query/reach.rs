//! Parts of route objects that requests reach: an earlier route of a host, of any object, may get every request of a
//! part, and a policy of a Gateway or listener may close the host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_envoy::model::Route;
use holdfast_envoy::model::containment::RequestSet;
use holdfast_envoy::model::placeholder::ComparedRoute;
use holdfast_graph::{Node, ObjectKey};

use crate::assembly::fleet::Fleet;
use crate::outcome::route::Rendered;

/// Returns the hosts at which a request reaches each of these parts in a fleet.
pub(super) fn reached_hosts(fleet: &Fleet, parts: &BTreeSet<Node>) -> BTreeMap<Node, BTreeSet<Arc<str>>> {
    let mut reached: BTreeMap<Node, BTreeSet<Arc<str>>> = BTreeMap::new();
    for (host, node, other) in at_hosts(fleet, parts) {
        if other.is_none() {
            reached.entry(node).or_default().insert(host);
        }
    }
    reached
}

/// Returns those of these parts that no request reaches in a fleet, each with the objects that get its requests.
pub(super) fn overtaken_parts(fleet: &Fleet, parts: &BTreeSet<Node>) -> BTreeMap<Node, BTreeSet<ObjectKey>> {
    let (mut reached, mut overtaken) = (BTreeSet::new(), BTreeMap::<Node, BTreeSet<ObjectKey>>::new());
    for (_, node, other) in at_hosts(fleet, parts) {
        match other {
            Some(other) => drop(overtaken.entry(node).or_default().insert(other)),
            None => drop(reached.insert(node)),
        }
    }
    overtaken.retain(|node, _| !reached.contains(node));
    overtaken
}

/// Returns the parts at each open host: once without another object if a request reaches the part, else with each object
/// that gets all requests of a route of the part.
fn at_hosts(fleet: &Fleet, parts: &BTreeSet<Node>) -> Vec<(Arc<str>, Node, Option<ObjectKey>)> {
    let mut found = Vec::new();
    for (table, host, routes) in fleet.hosts_in_order() {
        if fleet.closing(table, host).is_some() {
            continue;
        }
        let routes: Vec<&Rendered> = routes.collect();
        let at_host = parts_at(&routes, parts).into_iter();
        found.extend(at_host.map(|(node, other)| (host.domain().into(), node, other)));
    }
    found
}

/// Returns the parts at a host, in the form of [`at_hosts`].
fn parts_at(routes: &[&Rendered], parts: &BTreeSet<Node>) -> Vec<(Node, Option<ObjectKey>)> {
    let nodes: Vec<Node> = routes.iter().map(|rendered| rendered.node()).collect();
    if !nodes.iter().any(|node| parts.contains(node)) {
        return Vec::new();
    }
    let sets = routes.iter().map(|rendered| (&rendered.route, RequestSet::new(&rendered.route.matches)));
    let all: Vec<(Node, (&Route, RequestSet<'_>))> = nodes.into_iter().zip(sets).collect();
    let (mut reached, mut found) = (BTreeSet::new(), Vec::new());
    for (index, (node, own)) in all.iter().enumerate() {
        if !parts.contains(node) || reached.contains(node) {
            continue;
        }
        let mut before = all.iter().take(index).filter(|(other, _)| other != node);
        let other = before.find(|(_, earlier)| takes_all(earlier, own)).map(|(other, _)| other.key.clone());
        if other.is_none() {
            reached.insert(node);
        }
        found.push((node.clone(), other));
    }
    found
}

/// Returns whether an earlier route gets every request of a route. A placeholder keeps some from earlier routes.
fn takes_all((earlier, all): &(&Route, RequestSet<'_>), (route, requests): &(&Route, RequestSet<'_>)) -> bool {
    let keeps = || ComparedRoute::new(route).overlap(&ComparedRoute::new(earlier)).is_some();
    requests.is_within(all) && (route.placeholder.is_none() || !keeps())
}
