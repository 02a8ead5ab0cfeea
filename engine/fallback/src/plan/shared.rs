//! Objects that are refused for their share in clusters, for filters of chains, or as certificate authorities of clients.
//! They go back to their last valid versions; otherwise only the units that use the refused content are closed.
//! Certificate authorities never go back: earlier ones could accept other clients.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_graph::{Decision, Gates, Node, ObjectKey, Step, World as _};
use holdfast_translate::overlay::Overlay;
use holdfast_translate::query::validations::{RequiredValidation, required_validations};
use holdfast_xds::Version;

use super::derive::{Broken, Derived, of, suspected};
use super::fairness::Wait;
use super::world::World;
use crate::evidence::shares::share;

/// The refused objects, each with its finding and the units that use its content.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    objects: BTreeMap<ObjectKey, (Broken, BTreeSet<Node>)>,
    /// Those of them that contain certificate authorities.
    authorities: BTreeSet<ObjectKey>,
}

/// Returns the objects that are refused in their desired version, or that wait before the next trial.
pub(crate) fn refused(world: &World<'_>, retry_at: &mut Option<u64>) -> Shared {
    let mut shared = Shared::default();
    for key in keys(world) {
        let clusters = world.translator.clusters_through(world.gateway, key);
        shared.note(key, &clusters, world);
        let waits = clusters.into_iter().filter_map(|(cluster, unit)| {
            let content = share(cluster, key);
            let is_unknown = !world.refuses(&content)
                && !world.on_trial.contains(&content)
                && !world.proof.was_acknowledged(&cluster);
            Some((unit, world.waits(&Node::whole(key.clone()), &content).filter(|_| is_unknown)?))
        });
        for (unit, Wait { until, message }) in waits {
            *retry_at = Some(retry_at.map_or(until, |other| other.min(until)));
            let why = || (suspected(&Node::whole(key.clone()), message), BTreeSet::new());
            shared.objects.entry(key.clone()).or_insert_with(why).1.insert(unit);
        }
    }
    if world.quarantine.is_empty() {
        return shared;
    }
    shared.note_authorities(world);
    for (content, _, unit) in world.translator.filters(world.gateway) {
        if let Some(verdict) = world.quarantine.get(&content).filter(|_| world.refuses(&content)) {
            let why = || (of(verdict, &verdict.node), BTreeSet::new());
            shared.objects.entry(verdict.node.key.clone()).or_insert_with(why).1.insert(unit);
        }
    }
    shared
}

/// Returns the objects that are refused together with stand-in versions of routes that use them.
pub(super) fn refused_under(world: &World<'_>, over: &Overlay) -> Shared {
    let mut shared = Shared::default();
    for key in keys(world).into_iter().filter(|key| !over.alters(key)) {
        let clusters = world.translator.clusters_through_under(world.gateway, key, over, world.objects);
        shared.note(key, &clusters, world);
    }
    shared
}

/// Returns the objects with a verdict that are not routes.
fn keys<'a>(world: &World<'a>) -> BTreeSet<&'a ObjectKey> {
    let keys = world.quarantine.iter().map(|(_, verdict)| &verdict.node.key);
    keys.filter(|key| world.translator.route(key).is_none()).collect()
}

impl Shared {
    fn note(&mut self, key: &ObjectKey, clusters: &[(Version, Node)], world: &World<'_>) {
        for (cluster, unit) in clusters {
            let content = share(*cluster, key);
            if let Some(verdict) = world.quarantine.get(&content).filter(|_| world.refuses(&content)) {
                let why = || (of(verdict, &verdict.node), BTreeSet::new());
                self.objects.entry(key.clone()).or_insert_with(why).1.insert(unit.clone());
            }
        }
    }

    /// Adds the certificate authorities of clients that an Envoy refuses. Of several objects, which are refused together,
    /// any can be at fault: the first one is reported, and the message names all.
    fn note_authorities(&mut self, world: &World<'_>) {
        for (content, RequiredValidation { objects, listeners }) in
            required_validations(world.translator, world.gateway)
        {
            let Some(verdict) = world.quarantine.get(&content).filter(|_| world.refuses(&content)) else { continue };
            let Some(first) = objects.first() else { continue };
            let mut why = of(verdict, &Node::whole(first.clone()));
            if objects.len() > 1 {
                let names = objects.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
                why.message = format!("{} (in {names})", why.message).into();
            }
            self.authorities.insert(first.clone());
            self.objects.entry(first.clone()).or_insert_with(|| (why, BTreeSet::new())).1.extend(listeners);
        }
    }

    /// Checks whether no object is refused.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Adds other objects; returns true if there were any new ones.
    pub(crate) fn add(&mut self, others: Shared) -> bool {
        let mut any = false;
        self.authorities.extend(others.authorities);
        for (key, (why, units)) in others.objects {
            let known = self.objects.entry(key).or_insert_with(|| (why, BTreeSet::new()));
            let before = known.1.len();
            known.1.extend(units);
            any |= known.1.len() > before;
        }
        any
    }

    fn goes_back(&self, key: &ObjectKey, world: &World<'_>, gates: &Gates) -> bool {
        // The filters of a host are always those of the desired version.
        let has_version = world.last_valid(key) && world.translator.route(key).is_none();
        gates.isolate && gates.use_last_valid && has_version && !self.authorities.contains(key)
    }

    /// Returns the nodes from which the plan is derived.
    pub(crate) fn nodes(&self, world: &World<'_>, gates: &Gates) -> BTreeSet<Node> {
        let nodes = self.objects.iter().flat_map(|(key, (_, units))| match self.goes_back(key, world, gates) {
            true => BTreeSet::from([Node::whole(key.clone())]),
            false => units.clone(),
        });
        nodes.collect()
    }

    /// Returns the units that are closed because of other objects, with the findings.
    pub(crate) fn closings(&self, world: &World<'_>, gates: &Gates) -> BTreeMap<Node, Broken> {
        let closed = self.objects.iter().filter(|(key, _)| !self.goes_back(key, world, gates));
        let closed = closed.flat_map(|(key, (why, units))| {
            let message = format!("{} {}: {}", key.kind, key.namespaced_name(), why.message);
            units.iter().map(move |unit| (unit.clone(), Broken { message: message.as_str().into(), ..why.clone() }))
        });
        closed.collect()
    }

    /// Adds the broken objects to a plan, as causes of the units that are closed because of them.
    pub(super) fn add_to_plan(self, derived: &mut Derived, world: &World<'_>, gates: &Gates) {
        let own: BTreeSet<ObjectKey> = derived.broken.keys().map(|node| node.key.clone()).collect();
        for (key, (why, units)) in &self.objects {
            let (key, why) = (key.clone(), why.clone());
            let node = Node::whole(key.clone());
            if !self.goes_back(&key, world, gates) {
                let users: BTreeSet<&ObjectKey> = units.iter().map(|unit| &unit.key).collect();
                for decision in derived.plan.decisions.values_mut() {
                    if !decision.causes.iter().any(|cause| users.contains(cause)) {
                        continue;
                    }
                    decision.causes.retain(|cause| own.contains(cause) || !users.contains(cause));
                    decision.causes.insert(key.clone());
                }
                let causes = BTreeSet::from([key]);
                derived.plan.decisions.insert(node.clone(), Decision { step: Step::Excluded, causes });
            }
            derived.broken.insert(node, why);
        }
    }
}
