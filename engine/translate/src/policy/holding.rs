//! Policies of a Gateway and of the ListenerSets that joined it: the listeners that each policy applies to.
//!
//! A policy of a whole Gateway applies to all of its listeners, including those of ListenerSets. A policy of a
//! ListenerSet applies to the listeners of this ListenerSet only. A section is a listener of the target object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::section;
use holdfast_graph::{ObjectKey, Role};

use super::targets;
use crate::outcome::gateway::GatewayPlan;
use crate::outcome::listener::ListenerPlan;
use crate::outcome::policy::PolicyPlan;
use crate::precedence::attachment::Section;
use crate::reader::Reader;

/// A policy, its settings, and the part of an object that it is attached to.
pub(crate) type Held<'a> = (ObjectKey, &'a Arc<PolicyPlan>, Section);

/// Policies of a Gateway and of its ListenerSets.
pub(super) struct Holding<'a> {
    whole: Vec<Held<'a>>,
    sets: BTreeMap<ObjectKey, Vec<Held<'a>>>,
}

impl<'a> Holding<'a> {
    /// Reads the Gateway and its ListenerSets. The edges of ListenerSets are recorded where ListenerSets are read.
    pub(super) fn read(key: &ObjectKey, gateway: &GatewayPlan, reader: &mut Reader<'a>) -> Option<Self> {
        let object = reader.object(key)?;
        let whole = reader.policies_at(key, &object.metadata.labels);
        for (policy, _, section) in &whole {
            record(policy, section, key, &gateway.listeners, reader);
        }
        let mut sets = BTreeMap::new();
        for set in gateway.sets.iter().filter(|(_, set)| set.joins).map(|(set, _)| set) {
            let Some(object) = reader.object(set) else { continue };
            let held = of_set(set, &object.metadata.labels, reader);
            if !held.is_empty() {
                sets.insert(set.clone(), held);
            }
        }
        Some(Self { whole, sets })
    }

    /// Checks that no policy is attached.
    pub(super) fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.sets.is_empty()
    }

    /// Returns the policies of the whole Gateway.
    pub(super) fn whole(&self) -> impl Iterator<Item = (&ObjectKey, &'a Arc<PolicyPlan>)> {
        at(&self.whole, Section::Whole)
    }

    /// Returns the policies of a listener: first those that name it, then those of its ListenerSet.
    pub(super) fn of(&self, listener: &ListenerPlan) -> impl Iterator<Item = (&ObjectKey, &'a Arc<PolicyPlan>)> {
        let named = Section::Named(listener.section().clone());
        let (own, set): (&[Held<'a>], &[Held<'a>]) = match &listener.set {
            None => (&self.whole, &[]),
            Some(set) => {
                let held = self.sets.get(&set.key).map(Vec::as_slice).unwrap_or_default();
                (held, held)
            }
        };
        at(own, named).chain(at(set, Section::Whole))
    }

    /// Returns the objects that each policy is attached to.
    pub(super) fn owners(&self, gateway: &ObjectKey) -> BTreeMap<ObjectKey, BTreeSet<ObjectKey>> {
        let mut owners: BTreeMap<ObjectKey, BTreeSet<ObjectKey>> = BTreeMap::new();
        let of_sets = self.sets.iter().flat_map(|(set, held)| held.iter().map(move |held| (set, held)));
        for (owner, (policy, _, _)) in self.whole.iter().map(|held| (gateway, held)).chain(of_sets) {
            owners.entry(policy.clone()).or_default().insert(owner.clone());
        }
        owners
    }
}

/// Records the parts of a Gateway or ListenerSet with these listeners that depend on a policy. The listeners that forward
/// connections, and their routes, do not depend on a TrafficPolicy.
pub(crate) fn record(
    policy: &ObjectKey,
    section: &Section,
    owner: &ObjectKey,
    listeners: &[ListenerPlan],
    reader: &mut Reader<'_>,
) {
    let is_partial = *policy.kind == *kinds::TRAFFIC_POLICY && listeners.iter().any(ListenerPlan::forwards);
    match section {
        Section::Named(name) => reader.edge(owner, section::listener(name), policy, Role::Modifies),
        Section::Whole if is_partial => {
            for unit in listeners.iter().filter(|listener| !listener.forwards()).map(|listener| listener.unit(owner)) {
                reader.edge(&unit.key, unit.section, policy, Role::Modifies);
            }
        }
        Section::Whole => reader.edge(owner, "", policy, Role::Modifies),
    }
}

/// Returns the policies of a ListenerSet: only TrafficPolicies can be attached to it.
pub(crate) fn of_set<'a>(set: &ObjectKey, labels: &BTreeMap<String, String>, reader: &mut Reader<'a>) -> Vec<Held<'a>> {
    let mut held = reader.policies_at(set, labels);
    held.retain(|(policy, _, _)| targets::may_target(policy, &set.group, &set.kind));
    held
}

fn at<'s, 'a>(
    held: &'s [Held<'a>],
    wanted: Section,
) -> impl Iterator<Item = (&'s ObjectKey, &'a Arc<PolicyPlan>)> + use<'s, 'a> {
    held.iter().filter(move |(_, _, section)| *section == wanted).map(|(key, plan, _)| (key, *plan))
}
