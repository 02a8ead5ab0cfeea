//! The policies of a Gateway and of the ListenerSets that joined it: which of them hold for which listeners.
//!
//! A policy of a Gateway as a whole holds for all its listeners, also for those of sets; one of a set for the set's, and
//! for nobody else's. A section is a listener of the object that the policy names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{ObjectKey, Role};

use super::super::gateway::GatewayPlan;
use super::super::listener::{self, ListenerPlan};
use super::super::reader::Reader;
use super::{PolicyPlan, targets};
use crate::policies::attachment::Section;

/// A policy, what it says, and the part of an object that it is attached to.
pub(in crate::translate) type Held<'a> = (ObjectKey, &'a Arc<PolicyPlan>, Section);

/// See the module.
pub(super) struct Holding<'a> {
    whole: Vec<Held<'a>>,
    sets: BTreeMap<ObjectKey, Vec<Held<'a>>>,
}

impl<'a> Holding<'a> {
    /// Looks at the Gateway and its sets. Edges of sets are recorded where they are read.
    pub(super) fn read(key: &ObjectKey, gateway: &GatewayPlan, reader: &mut Reader<'a>) -> Option<Self> {
        let object = reader.object(key)?;
        let whole = reader.policies_at(key, &object.metadata.labels);
        for (policy, _, section) in &whole {
            let from = match section {
                Section::Whole => String::new(),
                Section::Named(name) => listener::section(name),
            };
            reader.edge(key, from, policy, Role::Modifies);
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

    /// Is there none?
    pub(super) fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.sets.is_empty()
    }

    /// Those of the Gateway as a whole.
    pub(super) fn whole(&self) -> impl Iterator<Item = (&ObjectKey, &'a Arc<PolicyPlan>)> {
        at(&self.whole, Section::Whole)
    }

    /// Those of a listener: by its name first, then those of the set that it is written in.
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

    /// The objects that each policy is attached to.
    pub(super) fn owners(&self, gateway: &ObjectKey) -> BTreeMap<ObjectKey, BTreeSet<ObjectKey>> {
        let mut owners: BTreeMap<ObjectKey, BTreeSet<ObjectKey>> = BTreeMap::new();
        let of_sets = self.sets.iter().flat_map(|(set, held)| held.iter().map(move |held| (set, held)));
        for (owner, (policy, _, _)) in self.whole.iter().map(|held| (gateway, held)).chain(of_sets) {
            owners.entry(policy.clone()).or_default().insert(owner.clone());
        }
        owners
    }
}

/// The policies that are attached to a ListenerSet: only those of traffic can be.
pub(in crate::translate) fn of_set<'a>(
    set: &ObjectKey,
    labels: &BTreeMap<String, String>,
    reader: &mut Reader<'a>,
) -> Vec<Held<'a>> {
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
