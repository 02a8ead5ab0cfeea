//! Broken policies: found by translation or refused by Envoy. A broken policy goes back to its last valid version if
//! that protects as much; otherwise its targets are closed. A policy is never left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::fault::Class;
use holdfast_graph::{Content, Decision, Detected, Node, ObjectKey, Step, World as _};
use holdfast_translate::outcome::policy::{PolicyPlan, Unenforceable};
use holdfast_translate::route::Replaced;

use super::derive::{Broken, Derived, by_translation, of, suspected};
use super::fairness::Wait;
use super::world::World;

/// Returns the policies of the Gateway that translation cannot enforce, and the extensions that cause this.
pub(crate) fn found(world: &World<'_>) -> BTreeMap<Node, Broken> {
    let mut broken = BTreeMap::new();
    for (key, plan) in world.translator.unenforceable() {
        let applies = || world.translator.governs(key, world.gateway) || world.policies_of_stand_ins().contains(key);
        let Some(why) = plan.unenforceable.as_ref().filter(|_| applies()) else { continue };
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

/// Returns the node at fault for a unit that a policy closed. If the policy does not exist, the unit itself is at
/// fault.
pub(crate) fn behind(replaced: &Replaced, world: &World<'_>) -> Option<(Node, Option<Broken>)> {
    let policy = replaced.policy.as_ref()?;
    let itself = Node::section(replaced.object.clone(), replaced.section.as_str());
    if !world.exists(policy) {
        return Some((itself, None));
    }
    if world.translator.policy(policy).is_some() {
        // The policy has a finding of its own.
        return None;
    }
    // The message of the unit begins with the field of the route; the policy has a field of its own.
    let of_backend = world.translator.backend(policy).and_then(|plan| plan.unenforceable.as_deref());
    let own = format!("{} {}: ", policy.kind, policy.namespaced_name());
    let of_unit = || replaced.message.strip_prefix(&own).unwrap_or(&replaced.message);
    let (field, message) = parted(of_backend.unwrap_or_else(of_unit));
    Some((Node::whole(policy.clone()), Some(by_translation(field, message))))
}

/// Splits `spec.field: message` into field and message.
pub fn parted(message: &str) -> (String, String) {
    match message.split_once(": ") {
        Some((field, rest)) if field.starts_with("spec") || field.starts_with("metadata") => {
            (field.to_owned(), rest.to_owned())
        }
        _ => (String::new(), message.to_owned()),
    }
}

/// Policy settings that only observe requests and cannot be served: they are left out, and close nothing.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    contents: BTreeMap<ObjectKey, BTreeSet<Content>>,
    found: BTreeMap<Node, Broken>,
}

impl LeftOut {
    /// Checks whether there are no such settings.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    fn note(&mut self, node: Node, content: Content, broken: Broken) {
        self.contents.entry(node.key.clone()).or_default().insert(content);
        self.found.entry(node).or_insert(broken);
    }

    /// Removes these settings from the policies.
    fn lay_over(&self, plans: &mut BTreeMap<ObjectKey, Arc<PolicyPlan>>, world: &World<'_>) {
        for (key, contents) in &self.contents {
            let Some(plan) = plans.get(key).or_else(|| world.translator.policy(key)) else { continue };
            // A policy that closes its targets applies no settings.
            if plan.unenforceable.is_none() {
                let without = plan.without(contents);
                plans.insert(key.clone(), Arc::new(without));
            }
        }
    }

    /// Adds the omitted settings to a plan.
    pub(crate) fn report(self, derived: &mut Derived) {
        for (node, broken) in self.found {
            if derived.overlay.objects.contains_key(&node.key) {
                continue;
            }
            let causes = BTreeSet::from([node.key.clone()]);
            derived.plan.decisions.insert(node.clone(), Decision { step: Step::Excluded, causes });
            derived.broken.insert(node, broken);
        }
    }
}

/// Returns the policies with desired settings that an Envoy of the build refuses, and the policies that wait before the
/// next trial.
pub(crate) fn refused(world: &World<'_>, left_out: &mut LeftOut, retry_at: &mut Option<u64>) -> BTreeMap<Node, Broken> {
    let mut broken = BTreeMap::new();
    let mut keys: BTreeSet<ObjectKey> = world.quarantine.iter().map(|(_, verdict)| verdict.node.key.clone()).collect();
    keys.extend(world.of_waiting_owners(|| world.translator.policies().map(|(key, _)| key.clone())));
    for key in &keys {
        let applies = || world.translator.governs(key, world.gateway) || world.policies_of_stand_ins().contains(key);
        let Some(plan) = world.translator.policy(key).filter(|_| applies()) else { continue };
        for (_, content) in plan.contents() {
            let node = plan.node_of(key, &content);
            let found = if world.refuses(&content) {
                let field = || plan.field_of(&content).map(|field| format!("spec.{field}")).unwrap_or_default();
                let Some(verdict) = world.quarantine.get(&content) else { continue };
                Broken { field: field().into(), ..of(verdict, &node) }
            } else if !world.proof.is_known_good(&content)
                && !world.on_trial.contains(&content)
                && let Some(Wait { until, message }) = world.waits(&node, &content)
            {
                *retry_at = Some(retry_at.map_or(until, |other| other.min(until)));
                suspected(&node, message)
            } else {
                continue;
            };
            let is_suspected = found.detected == Detected::Suspected;
            if is_suspected && node.section.is_empty() && !plan.protects_by(&content) {
                // Until the setting at fault is known, settings that protect nothing are left out.
                left_out.note(Node::section(key.clone(), field_of(plan, &content)), content, found);
            } else if !node.section.is_empty() {
                left_out.note(node, content, found);
            } else if !is_suspected {
                broken.insert(node, found);
            } else {
                broken.entry(node).or_insert(found);
            }
        }
    }
    broken
}

fn field_of(plan: &PolicyPlan, content: &Content) -> String {
    plan.field_of(content).unwrap_or_default()
}

/// Returns, while everything is held, a policy with new protecting settings: it goes back, or its targets are closed.
/// New settings that no Envoy has acknowledged and that protect no request are left out.
pub(crate) fn changed(
    key: &ObjectKey,
    plan: &PolicyPlan,
    why: &str,
    left_out: &mut LeftOut,
    world: &World<'_>,
) -> Option<(Node, Broken)> {
    let new = plan.contents().map(|(_, content)| content).filter(|content| !world.proof.is_proven(content));
    let (protecting, free): (Vec<Content>, Vec<Content>) = new.partition(|content| plan.protects_by(content));
    let whole = Node::whole(key.clone());
    if !protecting.is_empty() {
        return Some((whole.clone(), suspected(&whole, why)));
    }
    for content in free {
        let node = Node::section(key.clone(), field_of(plan, &content));
        let found = suspected(&node, why);
        left_out.note(node, content, found);
    }
    None
}

/// Replaces the plans of policies that do not have their desired settings.
pub(crate) fn lay_over(derived: &mut Derived, refused: &BTreeMap<Node, Broken>, left_out: &LeftOut, world: &World<'_>) {
    let decided = |key: &ObjectKey| derived.plan.decisions.get(&Node::whole(key.clone())).map(|decision| decision.step);
    // Includes the extensions because of which other policies are closed.
    let policies = derived.broken.keys().chain(refused.keys()).filter(|node| node.section.is_empty());
    let policies: BTreeSet<ObjectKey> = policies.map(|node| node.key.clone()).collect();
    let mut plans = BTreeMap::new();
    for (key, plan) in policies.iter().filter_map(|key| Some((key, world.translator.policy(key)?))) {
        if decided(key) == Some(Step::Backfilled)
            && let Some(stand_in) = derived.overlay.objects.get(key)
            && let Some(earlier) = world.translator.try_policy(stand_in, world.objects)
        {
            plans.insert(key.clone(), Arc::new(earlier));
            continue;
        }
        derived.overlay.objects.remove(key);
        if let Some(why) = refused.get(&Node::whole(key.clone())) {
            plans.insert(key.clone(), Arc::new(closed(key, plan, &why.message)));
        }
    }
    // A policy that reads an object with a stand-in version has the settings that follow from that version.
    let read = derived.overlay.objects.keys().filter(|key| world.translator.policy(key).is_none());
    let users: BTreeSet<ObjectKey> = read.flat_map(|key| world.translator.policies_reading(key)).collect();
    for user in users {
        // A policy that closes its targets continues to do so.
        if plans.get(&user).is_some_and(|plan: &Arc<PolicyPlan>| plan.unenforceable.is_some()) {
            continue;
        }
        let under = world.translator.try_policy_under(&user, &derived.overlay, world.objects);
        if let Some(plan) = under.filter(|plan| world.translator.policy(&user).is_none_or(|desired| **desired != *plan))
        {
            plans.insert(user, Arc::new(plan));
        }
    }
    left_out.lay_over(&mut plans, world);
    derived.overlay.policies = plans;
}

/// Returns the plan of a policy that closes its targets.
pub(crate) fn closed(policy: &ObjectKey, plan: &PolicyPlan, message: &str) -> PolicyPlan {
    let (message, kind) = (format!("refused by Envoy: {message}").into(), policy.kind.clone());
    let why = Unenforceable { class: Class::Invalid, message, kind };
    PolicyPlan { unenforceable: Some(why), ..plan.clone() }
}

/// Replaces decisions about policies by decisions about what they guard: a policy is never left out, its targets are
/// closed and reported instead.
pub(super) fn decide_targets(derived: &mut Derived, world: &World<'_>) {
    decide_stand_ins(derived, world);
    // A route at several listeners is closed if all listeners with its hosts are closed.
    let above = |node: &Node| node.key == *world.gateway || &*node.key.kind == kinds::LISTENER_SET;
    let behind = derived.plan.decisions.iter().filter(|(node, _)| above(node));
    let behind: BTreeSet<ObjectKey> = behind.flat_map(|(_, decision)| decision.causes.iter().cloned()).collect();
    if !behind.is_empty() {
        let levels = world.translator.try_levels(world.gateway, &derived.overlay, world.objects);
        for (route, policy) in world.translator.closed_routes(world.gateway, &levels) {
            let decision = derived.plan.decisions.entry(Node::whole(route.clone())).or_default();
            decision.step = decision.step.max(Step::Replaced);
            // If an extension is at fault, the policy that uses it is not.
            match behind.contains(policy) {
                true => decision.causes.extend([policy.clone()]),
                false => decision.causes.extend(behind.iter().cloned()),
            }
        }
    }
    derived.plan.decisions.retain(|node, decision| {
        let has_settings = |key: &ObjectKey| {
            world.translator.policy(key).is_some()
                || matches!(&*key.kind, kinds::DIRECT_RESPONSE | kinds::GATEWAY_EXTENSION)
        };
        decision.step == Step::Backfilled || !node.section.is_empty() || !has_settings(&node.key)
    });
}

/// Adds the rules of last valid versions that a policy closes and that the desired version lacks. No edge of the graph
/// leads from the policy to them.
fn decide_stand_ins(derived: &mut Derived, world: &World<'_>) {
    let overlay = &derived.overlay;
    let is_closing = |(key, plan): &(&ObjectKey, &Arc<PolicyPlan>)| {
        plan.unenforceable.is_some() && !world.translator.governs(key, world.gateway)
    };
    if !overlay.policies.iter().any(|policy| is_closing(&policy)) {
        return;
    }
    let stand_ins = overlay.objects.keys().filter(|key| world.serves(key) && *key != world.gateway);
    let plans = stand_ins.filter_map(|key| world.translator.try_route(key, overlay, world.objects));
    let replaced: Vec<Replaced> = plans.flat_map(|plan| plan.replaced).collect();
    for Replaced { object, section, policy, .. } in replaced {
        let Some(policy) = policy.filter(|key| overlay.policies.contains_key(key)) else { continue };
        let decision = derived.plan.decisions.entry(Node::section(object, section.as_str())).or_default();
        decision.step = decision.step.max(Step::Replaced);
        decision.causes.insert(policy);
    }
}
