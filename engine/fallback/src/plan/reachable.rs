//! Rules of an earlier version that have lost a backend since. Where the desired rule with the same matches is good, it
//! is served instead.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::http_proxy::{HttpProxy, ProxyEntry};
use holdfast_api::apis::contour::route::ProxyRoute;
use holdfast_api::apis::gateway::route::{GatewayRoute, RouteRule, RuleEntry};
use holdfast_api::fault::Class;
use holdfast_api::object::Object;
use holdfast_api::section::ObjectSection;
use holdfast_graph::{Node, ObjectKey};
use holdfast_translate::httpproxy::is_proxy;
use holdfast_translate::route::{Replaced, RoutePlan};

use super::fitness::alone;
use super::world::World;

/// The sections of a desired version that are served in another version.
pub(crate) type DesiredRules = BTreeSet<Arc<str>>;

/// Returns the version with its rules that have lost a backend taken from the desired version, where that is good, and
/// the sections of these desired rules.
pub(super) fn with_backends_of_today(version: Arc<Object>, world: &World<'_>) -> (Arc<Object>, DesiredRules) {
    let none = DesiredRules::new();
    let Some(desired) = world.objects.get(&version.key) else { return (version, none) };
    let has_rules = version.body.route().is_some() || matches!(version.body, Body::HttpProxy(_));
    if !has_rules || version.body == desired.body {
        return (version, none);
    }
    let Some(then) = world.translator.try_route(&version.key, &alone(&version), world.objects) else {
        return (version, none);
    };
    let lost = without_backends(&then, &version.key);
    if lost.is_empty() {
        return (version, none);
    }
    let Some(now) = world.translator.route(&version.key) else { return (version, none) };
    let section = |index: usize| section(&version.key, index);
    let is_good_now = |index: usize| is_good(now, &Node::section(version.key.clone(), section(index)), world);
    let (body, taken) = match (&version.body, &desired.body) {
        (Body::HttpRoute(then), Body::HttpRoute(now)) => {
            let (rules, taken) = rules(&then.rules, &now.rules, &lost, is_good_now);
            (Body::HttpRoute(Arc::new(GatewayRoute { rules, ..(**then).clone() })), taken)
        }
        (Body::GrpcRoute(then), Body::GrpcRoute(now)) => {
            let (rules, taken) = rules(&then.rules, &now.rules, &lost, is_good_now);
            (Body::GrpcRoute(Arc::new(GatewayRoute { rules, ..(**then).clone() })), taken)
        }
        (Body::StreamRoute(then), Body::StreamRoute(now)) => {
            let (rules, taken) = rules(&then.rules, &now.rules, &lost, is_good_now);
            (Body::StreamRoute(Arc::new(GatewayRoute { rules, ..(**then).clone() })), taken)
        }
        (Body::HttpProxy(then), Body::HttpProxy(now)) => {
            let (routes, taken) = proxy_routes(&then.routes, &now.routes, &lost, is_good_now);
            (Body::HttpProxy(Arc::new(HttpProxy { routes, ..(**then).clone() })), taken)
        }
        _ => return (version, none),
    };
    if taken.is_empty() {
        return (version, none);
    }
    let taken = taken.into_iter().map(|index| section(index).into()).collect();
    (Arc::new(Object { body, ..(*version).clone() }), taken)
}

/// Returns the section of a rule, or of a route of an HTTPProxy.
fn section(key: &ObjectKey, index: usize) -> String {
    if is_proxy(key) { ObjectSection::ProxyRoute(index).to_string() } else { ObjectSection::Rule(index).to_string() }
}

/// Checks whether a desired rule can be served as written now: it has its backends, is not refused, and does not wait.
fn is_good(plan: &RoutePlan, rule: &Node, world: &World<'_>) -> bool {
    let is_it = |replaced: &Replaced| replaced.object == rule.key && *replaced.section == *rule.section;
    let is_replaced = plan.replaced.iter().any(is_it);
    !is_replaced && !world.is_refused(plan, Some(&rule.section)) && !world.waits_for_a_trial(rule)
}

/// Returns the index of a rule or of a route of an HTTPProxy.
fn rule(section: &str) -> Option<usize> {
    match ObjectSection::parse(section) {
        ObjectSection::Rule(index) | ObjectSection::ProxyRoute(index) => Some(index),
        _ => None,
    }
}

/// Returns the rules of an object that lack a backend.
fn without_backends(plan: &RoutePlan, key: &ObjectKey) -> BTreeSet<usize> {
    let of_it = |replaced: &&Replaced| {
        replaced.object == *key && replaced.class == Class::Referential && replaced.policy.is_none()
    };
    plan.replaced.iter().filter(of_it).filter_map(|replaced| rule(&replaced.section)).collect()
}

fn rules<R: RouteRule>(
    then: &[RuleEntry<R>],
    now: &[RuleEntry<R>],
    lost: &BTreeSet<usize>,
    is_good: impl Fn(usize) -> bool,
) -> (Vec<RuleEntry<R>>, BTreeSet<usize>) {
    let is_same = |one: &RuleEntry<R>, other: &RuleEntry<R>| match (one, other) {
        (RuleEntry::Decoded(one), RuleEntry::Decoded(other)) => one.name() == other.name() && one.has_matches_of(other),
        _ => false,
    };
    chosen(then, now, lost, is_same, is_good)
}

fn proxy_routes(
    then: &[ProxyEntry<ProxyRoute>],
    now: &[ProxyEntry<ProxyRoute>],
    lost: &BTreeSet<usize>,
    is_good: impl Fn(usize) -> bool,
) -> (Vec<ProxyEntry<ProxyRoute>>, BTreeSet<usize>) {
    let is_same = |one: &ProxyEntry<ProxyRoute>, other: &ProxyEntry<ProxyRoute>| match (one, other) {
        (ProxyEntry::Decoded(one), ProxyEntry::Decoded(other)) => one.conditions == other.conditions,
        _ => false,
    };
    chosen(then, now, lost, is_same, is_good)
}

/// Returns the earlier entries, and the indices of desired entries among them: each lost entry is replaced by the first
/// good desired entry that is for the same requests.
fn chosen<T: Clone>(
    then: &[T],
    now: &[T],
    lost: &BTreeSet<usize>,
    is_same: impl Fn(&T, &T) -> bool,
    is_good: impl Fn(usize) -> bool,
) -> (Vec<T>, BTreeSet<usize>) {
    let (mut entries, mut taken) = (then.to_vec(), BTreeSet::new());
    for (_, entry) in entries.iter_mut().enumerate().filter(|(index, _)| lost.contains(index)) {
        let mut same = now.iter().enumerate().filter(|(_, other)| is_same(entry, other));
        if let Some((place, desired)) = same.find(|(place, _)| is_good(*place)) {
            *entry = desired.clone();
            taken.insert(place);
        }
    }
    (entries, taken)
}
