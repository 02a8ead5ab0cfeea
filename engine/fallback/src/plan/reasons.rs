//! The reasons why broken objects are not served in their last valid versions, for reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::{document, kinds};
use holdfast_api::section::ObjectSection;
use holdfast_graph::{Node, ObjectKey, World as _};

use super::derive::Derived;
use super::why_not::{Unfit, WhyNot};
use super::world::World;

/// Returns the reason of each broken object that is not served in its last valid version, or not as a whole. Without last
/// valid versions in use, no reason is needed.
pub(crate) fn reasons(derived: &Derived, world: &World<'_>) -> BTreeMap<ObjectKey, Arc<str>> {
    let gates = &world.settings.fallback;
    if !gates.isolate || !gates.use_last_valid || world.held.is_some() || !world.on_trial.is_empty() {
        return BTreeMap::new();
    }
    let unusable = world.translator.unusable_backends_of(world.gateway).map(|(key, _)| key);
    let broken = derived.broken.keys().chain(derived.objections.iter().map(|objection| &objection.node));
    let keys: BTreeSet<&ObjectKey> = broken.map(|node| &node.key).chain(unusable).collect();
    let reason = |key: &ObjectKey| Some((key.clone(), reason(key, derived, world)?.to_string().into()));
    let mut reasons: BTreeMap<ObjectKey, Arc<str>> = keys.into_iter().filter_map(reason).collect();
    if !gates.backfill_unresolved {
        let not_served = |(key, _): &(&ObjectKey, WhyNot)| !derived.served.contains_key(*key);
        for (key, why) in without_backends(world).filter(not_served) {
            reasons.entry(key.clone()).or_insert_with(|| why.to_string().into());
        }
    }
    reasons
}

/// Returns the routes of the Gateway that lack a backend and have an earlier version with another content.
fn without_backends<'a>(world: &'a World<'_>) -> impl Iterator<Item = (&'a ObjectKey, WhyNot)> {
    world.translator.invalid_routes().filter_map(|key| {
        let plan = world.translator.route(key).filter(|plan| plan.gateways().contains(world.gateway))?;
        plan.replaced.iter().find(|replaced| replaced.lacks_backend)?;
        let desired = world.objects.get(key)?;
        let mut versions = world.last_valid.of(key, Some(&desired.metadata.uid));
        let version = versions.find(|version| version.object.body != desired.body)?;
        Some((key, WhyNot::LacksBackend { generation: version.object.metadata.generation }))
    })
}

fn reason(key: &ObjectKey, derived: &Derived, world: &World<'_>) -> Option<WhyNot> {
    let unfit = |why: Unfit| {
        let uid = world.objects.get(key).map(|object| &*object.metadata.uid);
        let generation = world.last_valid.of(key, uid).next()?.object.metadata.generation;
        Some(WhyNot::Unfit { generation, why })
    };
    if let Some(objection) = derived.objections.iter().find(|objection| objection.node.key == *key) {
        return unfit(Unfit::Fault(objection.why.to_string()));
    }
    if derived.served.contains_key(key) {
        return None;
    }
    match world.choice(key) {
        Ok(_) => unfit(part(key, derived, world)),
        // The desired hostnames alone keep the route from being served below HTTPRoutes.
        Err(WhyNot::SameContent) if derived.broken.contains_key(&Node::section(key.clone(), "hostnames")) => {
            unfit(Unfit::Part("spec.hostnames"))
        }
        Err(WhyNot::NoVersion) if !world.settings.fallback.stores_credentials && has_credentials(key, world) => {
            Some(WhyNot::NotStored)
        }
        Err(why) => Some(why),
    }
}

/// Returns whether an object holds credentials; a Secret does, also one that cannot be read.
fn has_credentials(key: &ObjectKey, world: &World<'_>) -> bool {
    world.objects.get(key).map_or(*key.kind == *kinds::SECRET, |object| document::has_credentials(object))
}

/// Returns the part of an object that has a version to serve and is not served in it.
fn part(key: &ObjectKey, derived: &Derived, world: &World<'_>) -> Unfit {
    let own: Vec<&Node> = derived.broken.keys().filter(|node| node.key == *key).collect();
    let is_hostname = |node: &&Node| matches!(ObjectSection::parse(&node.section), ObjectSection::Hostname(_));
    let decision = derived.plan.decisions.get(&Node::whole(key.clone()));
    let closing = decision.filter(|decision| decision.step.is_closed()).into_iter().flat_map(|closed| &closed.causes);
    if let Some(other) = closing.into_iter().find(|cause| *cause != key) {
        Unfit::Closed(other.clone())
    } else if own.iter().any(|node| !world.comes_from_versions(node)) {
        Unfit::Part("the host with its filters, and the includes,")
    } else if own.iter().any(is_hostname) {
        Unfit::Fault("it has no hostname that can be served".to_owned())
    } else if world.translator.policy(key).is_some() {
        Unfit::Fault("only settings that protect nothing are left out, and all others are current".to_owned())
    } else {
        Unfit::Fault("the objects that depend on it cannot be served with it".to_owned())
    }
}
