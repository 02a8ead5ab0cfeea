//! Policies that are broken: found by translation or refused by Envoy. They go back to what was last valid, where that
//! protects as much, or close what they are attached to; never are they left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Node, ObjectKey, Step, World as _};

use super::derive::{Broken, Derived, WAITS, by_translation, of, suspected};
use super::world::World;
use crate::apis::gateway::listener_set;
use crate::fault::Class;
use crate::translate::policy::{PolicyPlan, Unenforceable};
use crate::translate::rule::Replaced;

/// Policies of the Gateway that translation cannot enforce, and extensions on whose account they are so.
pub(super) fn found(world: &World<'_>) -> BTreeMap<Node, Broken> {
    let mut broken = BTreeMap::new();
    for (key, plan) in world.translator.unenforceable() {
        let Some(why) = plan.unenforceable.as_ref().filter(|_| world.translator.governs(key, world.gateway)) else {
            continue;
        };
        let there = plan.blamed.iter().filter(|(extension, _)| world.exists(extension));
        let extensions: Vec<_> = there.collect();
        for (extension, (_, message)) in &extensions {
            let (field, message) = parted(message);
            broken.entry(Node::whole((*extension).clone())).or_insert_with(|| by_translation(field, message));
        }
        if extensions.is_empty() || plan.has_faults_of_its_own {
            let (field, message) = parted(&why.message);
            broken.insert(Node::whole(key.clone()), by_translation(field, message));
        }
    }
    broken
}

/// Whose fault it is that a policy closed a unit: of one that is not there nobody else can be blamed.
pub(super) fn behind(replaced: &Replaced, world: &World<'_>) -> Option<(Node, Option<Broken>)> {
    let policy = replaced.policy.as_ref()?;
    let itself = Node::section(replaced.object.clone(), replaced.section.as_str());
    if !world.exists(policy) {
        return Some((itself, None));
    }
    if world.translator.policy(policy).is_some() {
        // It is found for itself.
        return None;
    }
    let own = format!("{} {}: ", policy.kind, policy.namespaced_name());
    let (field, message) = parted(replaced.message.strip_prefix(&own).unwrap_or(&replaced.message));
    Some((Node::whole(policy.clone()), Some(by_translation(field, message))))
}

/// `spec.field: message`, as two.
fn parted(message: &str) -> (String, String) {
    match message.split_once(": ") {
        Some((field, rest)) if field.starts_with("spec") || field.starts_with("metadata") => {
            (field.to_owned(), rest.to_owned())
        }
        _ => (String::new(), message.to_owned()),
    }
}

/// Policies that an Envoy of the build refuses as they are desired, and those that wait before they are tried again.
pub(super) fn refused(world: &World<'_>, retry_at: &mut Option<u64>) -> BTreeMap<Node, Broken> {
    let mut broken = BTreeMap::new();
    let keys = world.quarantine.iter().map(|(_, verdict)| &verdict.node.key);
    let keys: BTreeSet<&ObjectKey> = keys.collect();
    for key in keys {
        let Some(plan) = world.translator.policy(key).filter(|_| world.translator.governs(key, world.gateway)) else {
            continue;
        };
        let node = Node::whole(key.clone());
        let waits = world.quarantine.wait_until(key, world.now_ms);
        for (_, content) in plan.contents() {
            if world.refuses(&content) {
                let field = || plan.field_of(&content).map(|field| format!("spec.{field}")).unwrap_or_default();
                let verdict = world.quarantine.get(&content);
                let told = |broken: Broken| Broken { field: field().into(), ..broken };
                broken.extend(verdict.map(|verdict| (node.clone(), told(of(verdict)))));
            } else if let Some(until) = waits
                && !world.proof.is_known_good(&content)
                && !world.on_trial.contains(&content)
            {
                *retry_at = Some(retry_at.map_or(until, |other| other.min(until)));
                broken.entry(node.clone()).or_insert_with(|| suspected(&node, WAITS));
            }
        }
    }
    broken
}

/// Where everything is held: does a policy say what nobody has acknowledged?
pub(super) fn is_new(plan: &PolicyPlan, world: &World<'_>) -> bool {
    plan.contents().any(|(_, content)| !world.proof.is_proven(&content))
}

/// What policies say that do not say what they are desired to.
pub(super) fn lay_over(derived: &mut Derived, refused: &BTreeMap<Node, Broken>, world: &World<'_>) {
    let decided = |key: &ObjectKey| derived.plan.decisions.get(&Node::whole(key.clone())).map(|decision| decision.step);
    // Those on whose account others are closed, too: extensions that they use.
    let policies = derived.broken.keys().chain(refused.keys()).filter(|node| node.section.is_empty());
    let policies: BTreeSet<ObjectKey> = policies.map(|node| node.key.clone()).collect();
    let mut said = BTreeMap::new();
    for (key, plan) in policies.iter().filter_map(|key| Some((key, world.translator.policy(key)?))) {
        if decided(key) == Some(Step::Backfilled)
            && let Some(stand_in) = derived.overlay.objects.get(key)
            && let Some(earlier) = world.translator.try_policy(stand_in, world.objects)
        {
            said.insert(key.clone(), Arc::new(earlier));
            continue;
        }
        derived.overlay.objects.remove(key);
        if let Some(why) = refused.get(&Node::whole(key.clone())) {
            said.insert(key.clone(), Arc::new(closed(plan, &why.message)));
        }
    }
    derived.overlay.policies = said;
}

/// A policy that closes what it is attached to.
pub(super) fn closed(plan: &PolicyPlan, message: &str) -> PolicyPlan {
    let why = Unenforceable { class: Class::Invalid, message: format!("refused by Envoy: {message}").into() };
    PolicyPlan { unenforceable: Some(why), ..plan.clone() }
}

/// A policy is never left out: what it guards is closed, and told of in its place.
pub(super) fn tell(derived: &mut Derived, world: &World<'_>) {
    // A route that stands at several listeners is closed where these are that have its hosts.
    let above = |node: &Node| node.key == *world.gateway || &*node.key.kind == listener_set::KIND;
    let behind = derived.plan.decisions.iter().filter(|(node, _)| above(node));
    let behind: BTreeSet<ObjectKey> = behind.flat_map(|(_, decision)| decision.causes.iter().cloned()).collect();
    if !behind.is_empty() {
        let levels = world.translator.try_levels(world.gateway, &derived.overlay, world.objects);
        for (route, policy) in world.translator.closed_routes(world.gateway, &levels) {
            let decision = derived.plan.decisions.entry(Node::whole(route.clone())).or_default();
            decision.step = decision.step.max(Step::Replaced);
            // Of an extension that is at fault the policy is not.
            match behind.contains(policy) {
                true => decision.causes.extend([policy.clone()]),
                false => decision.causes.extend(behind.iter().cloned()),
            }
        }
    }
    derived.plan.decisions.retain(|node, decision| {
        let says = |key: &ObjectKey| {
            world.translator.policy(key).is_some() || matches!(&*key.kind, "DirectResponse" | "GatewayExtension")
        };
        decision.step == Step::Backfilled || !node.section.is_empty() || !says(&node.key)
    });
}
