//! The second pair of eyes: looks at every fallback of a line before it is offered.
//!
//! What may never happen is asked here once more, from the objects of today and from what would be served, by code that
//! the planner does not use. It changes no decision for the better: what it objects to is closed. Nothing here may
//! derive a plan, or ask the planner whether something is allowed.
//!
//! Its cost is that of the overlay; where everything is served as desired it does nothing. It runs once for each
//! derivation, and its closings are final for it, so that it cannot go round in circles with the planner. Should it
//! fail itself, what it did not look at is closed.

mod backends;
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
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use holdfast_graph::{Node, ObjectKey};
use serde::Serialize;

use super::derive::Derived;
use super::world::World;
use crate::translate::gateway::GatewayPlan;
use crate::translate::overlay::Overlay;
use crate::translate::route::RoutePlan;
use today::Today;

/// What an objection is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum About {
    /// An object that is not there any more, or is another one of the same name.
    Existence,
    /// A version that may not stand in: never proven, kept from it by its annotation, too old, with claims of its own.
    Version,
    /// A Secret that is no server certificate which can be used today.
    Credential,
    /// A place (table and host) where the object of today does not stand.
    Reach,
    /// A back end that is not there, or that nobody allows today.
    BackEnd,
    /// A filter that protects, and that the desired version names.
    Security,
    /// A listener that does not keep what it owns.
    Listener,
    /// The checker itself failed.
    Unchecked,
}

/// As it is told.
impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            About::Existence => "existence",
            About::Version => "version",
            About::Credential => "credential",
            About::Reach => "reach",
            About::BackEnd => "back end",
            About::Security => "security",
            About::Listener => "listener",
            About::Unchecked => "unchecked",
        })
    }
}

/// Something that must not be served so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Objection {
    /// The unit, or the object as a whole.
    pub node: Node,
    /// What it is about.
    pub about: About,
    /// A sentence.
    pub why: Arc<str>,
}

impl Objection {
    fn new(node: Node, about: About, why: impl Into<Arc<str>>) -> Self {
        Self { node, about, why: why.into() }
    }

    fn whole(key: &ObjectKey, about: About, why: impl Into<Arc<str>>) -> Self {
        Self::new(Node::whole(key.clone()), about, why)
    }
}

/// For people: what was closed, and why.
impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({}): {}", self.node.key, self.node.section, self.about, self.why)
    }
}

/// Closes what must not be served so, and notes it.
///
/// First the objects that stand in, then what would come of them. What is still wrong after that is closed as a whole.
pub(crate) fn enforce(derived: &mut Derived, world: &World<'_>) {
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

/// Everything that is wrong with a fallback, in order, each once.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn objections(overlay: &Overlay, world: &World<'_>) -> Vec<Objection> {
    let mut found = guarded(overlay, world, stand_ins);
    found.extend(guarded(overlay, world, outcome));
    found.into_iter().collect()
}

/// Looks; where that fails there is an objection to everything.
fn guarded(
    overlay: &Overlay,
    world: &World<'_>,
    look: impl FnOnce(&Overlay, &World<'_>) -> BTreeSet<Objection>,
) -> BTreeSet<Objection> {
    // The checker only reads, and what it had found is thrown away with it.
    catch_unwind(AssertUnwindSafe(|| look(overlay, world))).unwrap_or_else(|_| {
        let why = "Holdfast itself failed to check this: please report it";
        overlay.keys().into_iter().map(|key| Objection::whole(key, About::Unchecked, why)).collect()
    })
}

/// What is wrong with the objects that would be read otherwise than they are desired.
fn stand_ins(overlay: &Overlay, world: &World<'_>) -> BTreeSet<Objection> {
    let today = Today::new(world);
    let mut found = BTreeSet::new();
    for (key, object) in &overlay.objects {
        found.extend(versions::check(key, object, world, &today));
    }
    let gone = "it would be served as if it were not there, and others would answer for it";
    found.extend(policies::stand_ins(overlay, world, &today));
    let others = overlay.hidden.iter().filter(|key| !may_be_hidden(key));
    found.extend(others.map(|key| Objection::whole(key, About::Reach, gone)));
    found
}

/// What does not own anything can count as missing: then what needs it is closed.
fn may_be_hidden(key: &ObjectKey) -> bool {
    let is_read_by_others =
        ["BackendConfigPolicy", "BackendTLSPolicy", "Backend", "GatewayExtension", "DirectResponse"];
    matches!(&*key.kind, "Secret" | "Service") || is_read_by_others.contains(&&*key.kind)
}

/// What is wrong with what would be served.
fn outcome(overlay: &Overlay, world: &World<'_>) -> BTreeSet<Objection> {
    let today = Today::new(world);
    let mut found = BTreeSet::new();
    let Some(desired) = world.translator.gateway(world.gateway) else { return found };
    let altered;
    let served = if overlay.keys().iter().any(|key| &*key.kind == "Secret") {
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

/// The same, as objections to objects.
fn outcome_as_a_whole(overlay: &Overlay, world: &World<'_>) -> BTreeSet<Objection> {
    let whole = |found: Objection| Objection { node: Node::whole(found.node.key), ..found };
    outcome(overlay, world).into_iter().map(whole).collect()
}

/// What is wrong with one route object as it would be served.
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
    if let Some(object) = today.object(key) {
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
    found
}

/// The route objects that the overlay touches.
fn routes(overlay: &Overlay, world: &World<'_>) -> BTreeSet<ObjectKey> {
    let is_route = |key: &ObjectKey| matches!(&*key.kind, "HTTPRoute" | "GRPCRoute");
    let mut routes = BTreeSet::new();
    for key in overlay.keys() {
        if is_route(key) {
            routes.insert(key.clone());
        } else {
            routes.extend(world.translator.routes_reading(key).into_iter().filter(is_route));
        }
    }
    routes
}
