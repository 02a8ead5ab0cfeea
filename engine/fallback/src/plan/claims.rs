//! Claims that cannot be used: hostnames of routes, and hostnames and TLS options of listeners.
//!
//! With backfill on, these claims fall back to the ones of the last valid version. A route falls back as a whole, with
//! its hybrid (`hybrid.rs`), if that gives it a host again. A listener keeps all other fields of the desired version:
//! translation receives only the last valid hostname and TLS options, as a loan. Hostnames yield to current claims of
//! other objects.
//! A claim without a last valid form is left out and reported.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::section;
use holdfast_graph::{Decision, Node, ObjectKey, Step};
use holdfast_translate::claims::is_unusable_hostname;

use super::derive::{Broken, Derived, by_translation};
use super::world::World;
use crate::evidence::last_valid::Version;

/// The unusable claims of one Gateway.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Unusable hostnames of routes that have a host again with an earlier version: these routes are backfilled.
    pub(crate) backfilled: BTreeMap<Node, Broken>,
    /// Claims that are left out.
    left_out: BTreeMap<Node, Broken>,
    /// Listeners that use the hostname or TLS options of an earlier version.
    lent: BTreeMap<Node, Broken>,
}

/// Finds the unusable claims of the routes and listeners of a scope's Gateway.
pub(crate) fn found(world: &World<'_>) -> Claims {
    let mut claims = Claims::default();
    let gates = &world.settings.fallback;
    if !gates.isolate || !gates.use_last_valid || world.held.is_some() {
        return claims;
    }
    for key in world.translator.unclaimed_routes() {
        let Some(plan) = world.translator.route(key) else { continue };
        if !plan.parents.iter().any(|parent| parent.gateway == *world.gateway) {
            continue;
        }
        let faults = plan.faults.iter().filter(|fault| is_unusable_hostname(fault));
        let broken = faults.map(|fault| {
            let section = section::of_field(&fault.field);
            let node = Node::section(key.clone(), section);
            (node, by_translation(fault.field.clone(), fault.message.clone()))
        });
        match world.claims_again(key) {
            true => claims.backfilled.extend(broken),
            false => claims.left_out.extend(broken),
        }
    }
    let listeners = world.translator.gateway(world.gateway).map(|plan| plan.listeners.as_slice()).unwrap_or_default();
    for listener in listeners {
        let node = listener.unit(world.gateway);
        if let Some(why) = &listener.hostname_fault {
            let broken = by_translation(format!("{}.hostname", listener.field), why.clone());
            match listener.is_lent() {
                true => claims.lent.insert(node.clone(), broken),
                false => claims.left_out.insert(node.clone(), broken),
            };
        }
        // A listener without a lent value is closed by translation, as without a usable certificate.
        if let Some((option, why)) = listener.option_faults.first().filter(|_| listener.has_lent_options()) {
            let field = format!("{}.tls.options[{}]", listener.field, option.key());
            claims.lent.entry(node).or_insert_with(|| by_translation(field, why.clone()));
        }
    }
    claims
}

impl Claims {
    /// Adds decisions to a plan for claims that none of its steps covers.
    pub(super) fn add_to_plan(self, derived: &mut Derived, world: &World<'_>) {
        let mut decide = |node: Node, broken: Broken, step: Step| {
            let decision = derived.plan.decisions.entry(node.clone()).or_default();
            *decision = Decision { step: decision.step.max(step), causes: BTreeSet::from([node.key.clone()]) };
            derived.broken.insert(node, broken);
        };
        for (node, broken) in self.left_out {
            decide(node, broken, Step::Excluded);
        }
        for (node, broken) in self.lent {
            let until = world.backfill_ends(&node.key);
            derived.retry_at = derived.retry_at.into_iter().chain(until).min();
            let known = last(world, &node.key);
            let served = known.map_or((0, world.now()), |last| (last.object.metadata.generation, last.since));
            derived.served.insert(node.key.clone(), served);
            decide(node, broken, Step::Backfilled);
        }
    }
}

fn last<'a>(world: &World<'a>, key: &ObjectKey) -> Option<&'a Version> {
    let uid = world.objects.get(key).map(|object| &*object.metadata.uid)?;
    world.last_valid.of(key, Some(uid)).next()
}
