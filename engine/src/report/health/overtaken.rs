//! Requests of a replaced section that other routes answer: a placeholder comes after a route with an equal match, and
//! the older one of two objects gets the requests of an equal match. What no request gets is no effect.

use std::collections::BTreeSet;

use holdfast_envoy::model::containment::RequestSet;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_translate::query::duplicates::{Duplicate, section_of};
use holdfast_translate::route::{Rendered, RoutePlan};

use super::{Holds, own};
use crate::engine::Engine;
use crate::health::facts::Effect;
use crate::health::view::Gets;

/// Removes what no request gets: the hosts at which another route answers each request, and effects without a host left.
/// In a hold, the published order of routes is an earlier one.
pub(super) fn remove_overtaken(engine: &Engine, holds: &Holds<'_>, effects: &mut Vec<Effect>) {
    let is_answer = |effect: &Effect| {
        let of_requests = matches!(effect.gets, Gets::Status { .. } | Gets::Share { .. });
        of_requests && !effect.section.is_empty() && !effect.hosts.is_empty() && effect.listener.is_none()
    };
    let is_meant = |effect: &Effect| is_answer(effect) && !holds.contains_key(&*effect.gateway);
    if !effects.iter().any(is_meant) {
        return;
    }
    let duplicates = engine.translator.duplicates();
    effects.retain_mut(|effect| {
        let object = effect.object.key();
        let scope = engine.scope_of(&effect.gateway);
        let served = scope.and_then(|scope| engine.translator.served_share(&scope.id.fleet, &object));
        let plan = served.or_else(|| engine.translator.route(&object).cloned());
        let Some(plan) = plan.filter(|_| is_meant(effect)) else { return true };
        let of_gateway = duplicates.iter().filter(|(gateway, _)| gateway.namespaced_name() == *effect.gateway);
        let lost: Vec<&Duplicate> = of_gateway.filter_map(|(_, all)| all.lost.get(&object)).flatten().collect();
        let reached: Vec<&Rendered> =
            own(&plan, &effect.section).map(|rendered| &**rendered).filter(|one| !is_overtaken(one, &plan)).collect();
        let here = plan.places.iter().filter(|(gateway, _, _)| gateway.namespaced_name() == *effect.gateway);
        let left = here.filter(|(_, table, host)| reached.iter().any(|one| !is_lost(one, &lost, (table, host))));
        let left: BTreeSet<&str> = left.map(|(_, _, host)| host.domain()).collect();
        effect.hosts.retain(|host| left.contains(&**host));
        !effect.hosts.is_empty()
    });
}

/// Returns whether an earlier route of the plan gets every request of a route. A placeholder keeps requests from earlier
/// routes.
fn is_overtaken(rendered: &Rendered, plan: &RoutePlan) -> bool {
    let route = &rendered.route;
    if route.placeholder.is_some() {
        return false;
    }
    let requests = RequestSet::new(&route.matches);
    let mut before = plan.routes.iter().map(|other| &other.route).filter(|other| other.precedence < route.precedence);
    before.any(|other| other.section != route.section && requests.is_within(&RequestSet::new(&other.matches)))
}

/// Returns whether an older object gets the requests of a route to a host of a table.
fn is_lost(rendered: &Rendered, duplicates: &[&Duplicate], (table, host): (&TableName, &Host)) -> bool {
    let section = section_of(rendered);
    rendered.route.placeholder.is_none()
        && duplicates
            .iter()
            .any(|duplicate| duplicate.section == section && duplicate.places.contains(&(table.clone(), host.clone())))
}
