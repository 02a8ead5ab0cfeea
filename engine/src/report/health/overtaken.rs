//! Requests of a replaced section that other routes answer: a placeholder comes after a route with an equal match, and
//! the older one of two objects gets the requests of an equal match. What no request gets is no effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::fault::Class;
use holdfast_envoy::model::Route;
use holdfast_envoy::model::containment::RequestSet;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_graph::ObjectKey;
use holdfast_translate::query::duplicates::{Duplicate, section_of};
use holdfast_translate::route::{Rendered, RoutePlan};

use super::{Holds, own};
use crate::engine::Engine;
use crate::health::facts::{Effect, ObjectProblem};
use crate::health::view::Gets;

/// Removes what no request gets: the hosts at which another route answers each request, and effects without a host left.
/// In a hold, the published order of routes is an earlier one. Without a problem of `Conflict`, there are no duplicates.
pub(super) fn remove_overtaken(engine: &Engine, found: &[ObjectProblem], holds: &Holds<'_>, effects: &mut Vec<Effect>) {
    let is_answer = |effect: &Effect| {
        let of_requests = matches!(effect.gets, Gets::Status { .. } | Gets::Share { .. });
        of_requests && !effect.section.is_empty() && !effect.hosts.is_empty() && effect.listener.is_none()
    };
    let is_meant = |effect: &Effect| is_answer(effect) && !holds.contains_key(&*effect.gateway);
    let (meant, others): (Vec<_>, Vec<_>) = effects.drain(..).partition(is_meant);
    *effects = others;
    let mut by_object: BTreeMap<(Arc<str>, ObjectKey), Vec<Effect>> = BTreeMap::new();
    for effect in meant {
        by_object.entry((effect.gateway.clone(), effect.object.key())).or_default().push(effect);
    }
    let has_conflicts = !by_object.is_empty() && found.iter().any(|found| found.class == Class::Conflict);
    let duplicates = if has_conflicts { engine.translator.duplicates() } else { BTreeMap::new() };
    for ((gateway, object), mut of_object) in by_object {
        let scope = engine.scope_of(&gateway);
        let served = scope.and_then(|scope| engine.translator.served_share(&scope.id.fleet, &object));
        if let Some(plan) = served.or_else(|| engine.translator.route(&object).cloned()) {
            let of_gateway = duplicates.iter().filter(|(key, _)| key.namespaced_name() == *gateway);
            let lost: Vec<&Duplicate> = of_gateway.filter_map(|(_, all)| all.lost.get(&object)).flatten().collect();
            keep_reached(&gateway, &plan, &lost, &mut of_object);
        }
        effects.extend(of_object);
    }
}

/// Keeps the effects of one object at a Gateway that a request gets, with the hosts of these requests.
fn keep_reached(gateway: &str, plan: &RoutePlan, lost: &[&Duplicate], effects: &mut Vec<Effect>) {
    let sets: Vec<(&Route, RequestSet<'_>)> =
        plan.routes.iter().map(|rendered| (&rendered.route, RequestSet::new(&rendered.route.matches))).collect();
    let here: Vec<_> = plan.places.iter().filter(|(key, _, _)| key.namespaced_name() == *gateway).collect();
    effects.retain_mut(|effect| {
        let reached: Vec<&Rendered> =
            own(plan, &effect.section).map(|rendered| &**rendered).filter(|one| !is_overtaken(one, &sets)).collect();
        let is_left = |table: &TableName, host: &Host| reached.iter().any(|one| !is_lost(one, lost, (table, host)));
        let left = here.iter().filter(|(_, table, host)| is_left(table, host));
        let left: BTreeSet<&str> = left.map(|(_, _, host)| host.domain()).collect();
        effect.hosts.retain(|host| left.contains(&**host));
        !effect.hosts.is_empty()
    });
}

/// Returns whether an earlier route of the plan gets every request of a route. A placeholder keeps requests from earlier
/// routes.
fn is_overtaken(rendered: &Rendered, sets: &[(&Route, RequestSet<'_>)]) -> bool {
    let route = &rendered.route;
    if route.placeholder.is_some() {
        return false;
    }
    let requests = RequestSet::new(&route.matches);
    let mut before = sets.iter().filter(|(other, _)| other.precedence < route.precedence);
    before.any(|(other, all)| other.section != route.section && requests.is_within(all))
}

/// Returns whether an older object gets the requests of a route to a host of a table.
fn is_lost(rendered: &Rendered, duplicates: &[&Duplicate], (table, host): (&TableName, &Host)) -> bool {
    let section = section_of(rendered);
    rendered.route.placeholder.is_none()
        && duplicates
            .iter()
            .any(|duplicate| duplicate.section == section && duplicate.places.contains(&(table.clone(), host.clone())))
}
