//! Audit of fallbacks: an independent check of every fallback of a scope before it is offered.
//!
//! The audit checks the safety invariants a second time, from the current objects and from what would be served, with
//! code that the planner does not use. The audit only tightens decisions: it closes what it objects to. Nothing here
//! may derive a plan, or use the planner's decision about whether something is allowed.
//!
//! The cost of the audit is proportional to the overlay; if everything is served as desired, the audit does nothing. It
//! runs once per derivation, and its closings are final for that derivation, so that planner and audit cannot alternate
//! forever. If the audit itself fails, everything that it did not check is closed.

mod above;
mod backends;
mod clients;
mod delegation;
mod listener_policies;
mod listeners;
mod meeting;
mod policies;
mod proxies;
mod reach;
mod remedy;
mod security;
#[cfg(test)]
mod tests;
mod today;
mod traffic;
mod upstream;
mod versions;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use holdfast_api::apis::kinds;
use holdfast_graph::{Node, ObjectKey};
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::overlay::Overlay;
use holdfast_translate::route::RoutePlan;
use today::Today;

use crate::plan::derive::Derived;
pub use crate::plan::objection::{About, Objection};
use crate::plan::world::World;

/// Closes what must not be served, and records it.
///
/// First the stand-in versions are checked, then what would be served with them. Objects with remaining objections
/// after that are closed as a whole.
pub fn enforce(derived: &mut Derived, world: &World<'_>) {
    if derived.overlay.is_empty() {
        return;
    }
    let mut all = guarded(&derived.overlay, world, stand_ins);
    remedy::apply(derived, &all, world);
    let found = guarded(&derived.overlay, world, outcome);
    if !found.is_empty() {
        remedy::apply(derived, &found, world);
        all.extend(found);
        let left = guarded(&derived.overlay, world, outcome_as_a_whole);
        remedy::apply(derived, &left, world);
        all.extend(left);
    }
    derived.objections = all.into_iter().collect();
}

/// Returns all objections to a fallback, in order, without duplicates.
pub fn objections(overlay: &Overlay, world: &World<'_>) -> Vec<Objection> {
    let mut found = guarded(overlay, world, stand_ins);
    found.extend(guarded(overlay, world, outcome));
    found.into_iter().collect()
}

/// Runs a check; if the check panics, the result is an objection to every object of the overlay.
fn guarded(
    overlay: &Overlay,
    world: &World<'_>,
    look: impl FnOnce(&Overlay, &World<'_>) -> BTreeSet<Objection>,
) -> BTreeSet<Objection> {
    // The audit only reads, and its partial results are discarded when it panics.
    catch_unwind(AssertUnwindSafe(|| look(overlay, world))).unwrap_or_else(|_| {
        let why = "an internal error of Holdfast stopped this check: please report it";
        overlay.keys().into_iter().map(|key| Objection::whole(key, About::Unchecked, why)).collect()
    })
}

/// Returns objections to the objects that would be read in a form other than the desired one.
fn stand_ins(overlay: &Overlay, world: &World<'_>) -> BTreeSet<Objection> {
    let today = Today::new(world);
    let mut found = BTreeSet::new();
    for (key, object) in &overlay.objects {
        found.extend(versions::check(key, object, world, &today));
    }
    let gone = "it would be treated as missing, and other objects would get its requests";
    found.extend(policies::stand_ins(overlay, world, &today));
    let others = overlay.hidden.iter().filter(|key| !may_be_hidden(key));
    found.extend(others.map(|key| Objection::whole(key, About::Reach, gone)));
    found
}

/// Checks whether an object may count as missing, because it owns no port, host or path. Objects that need it are
/// closed then.
fn may_be_hidden(key: &ObjectKey) -> bool {
    matches!(
        &*key.kind,
        kinds::SECRET
            | kinds::SERVICE
            | kinds::BACKEND_CONFIG_POLICY
            | kinds::BACKEND_TLS_POLICY
            | kinds::BACKEND
            | kinds::GATEWAY_EXTENSION
            | kinds::DIRECT_RESPONSE
    )
}

/// Returns objections to what would be served.
fn outcome(overlay: &Overlay, world: &World<'_>) -> BTreeSet<Objection> {
    let today = Today::new(world);
    let mut found = BTreeSet::new();
    let Some(desired) = world.translator.gateway(world.gateway) else { return found };
    let altered;
    let served = if overlay.keys().iter().any(|key| &*key.kind == kinds::SECRET) {
        altered = world.translator.try_gateway(world.gateway, overlay, world.objects);
        let served = altered.as_ref().unwrap_or(desired);
        found.extend(listeners::check(desired, served, overlay, world, &today));
        served
    } else {
        &**desired
    };
    if !overlay.policies.is_empty() {
        found.extend(policies::of_gateway(served, overlay, world, &today));
    }
    for key in routes(overlay, world) {
        let Some(plan) = world.translator.try_route(&key, overlay, world.objects) else { continue };
        found.extend(route(&key, &plan, overlay, served, world, &today));
    }
    for root in proxies::roots(overlay, world) {
        found.extend(proxies::check(&root, overlay, world, &today));
    }
    found
}

/// Returns objections to what would be served, each as an objection to the whole object.
fn outcome_as_a_whole(overlay: &Overlay, world: &World<'_>) -> BTreeSet<Objection> {
    let whole = |found: Objection| Objection { node: Node::whole(found.node.key), ..found };
    outcome(overlay, world).into_iter().map(whole).collect()
}

/// Returns objections to one route object in the form in which it would be served.
fn route(
    key: &ObjectKey,
    plan: &RoutePlan,
    overlay: &Overlay,
    gateway: &GatewayPlan,
    world: &World<'_>,
    today: &Today<'_>,
) -> Vec<Objection> {
    if !plan.gateways().contains(world.gateway) {
        return Vec::new();
    }
    let mut found = reach::check(key, plan, overlay, gateway, world, today);
    found.extend(backends::check(key, plan, overlay, today));
    if let Some(served) = overlay.objects.get(key).filter(|_| today.is_unusable(key)) {
        found.extend(policies::of_unreadable(served, plan, world, today));
    }
    if let Some(object) = today.object(key) {
        found.extend(delegation::check(object, plan, overlay, world, today));
        found.extend(policies::of_route(object, plan, overlay, world, today));
    }
    if let (Some(served), Some(desired)) = (overlay.objects.get(key), today.object(key))
        && let Some(desired_plan) = world.translator.route(key)
    {
        let policies = policies::of_rules(desired, today);
        let desired = security::Form::new(desired, desired_plan).guarded(policies);
        let served = security::Form::new(served, plan);
        found.extend(security::check(key, &desired, &served, world.settings));
    }
    // A route that is served in an earlier version itself is the reason for its objections.
    let cause = delegation::earlier_above(plan, overlay).filter(|_| !overlay.objects.contains_key(key));
    found.into_iter().map(|objection| objection.because_of(cause.cloned())).collect()
}

/// Returns the route objects that the overlay affects.
fn routes(overlay: &Overlay, world: &World<'_>) -> BTreeSet<ObjectKey> {
    let is_route = |key: &ObjectKey| kinds::ROUTES.contains(&&*key.kind);
    let mut routes = BTreeSet::new();
    for key in overlay.keys() {
        if is_route(key) {
            routes.insert(key.clone());
        }
        // Routes also read the HTTPRoutes that delegate to them.
        routes.extend(world.translator.routes_reading(key).into_iter().filter(is_route));
    }
    routes.extend(overlay.objects.values().flat_map(|version| world.translator.routes_below(version)));
    routes
}
