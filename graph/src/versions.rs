//! Propagation of versions (backfill): an object that goes back to its last valid version takes its dependants along,
//! because this combination was acknowledged once.
//!
//! Versions propagate by object, never by section, and never to objects to which others are attached.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::plan::CAUSES_MAX;
use crate::{Graph, ObjectKey, World};

/// Returns every object that versions of `causes` reach, each with the causes that reach it; a cause itself is listed
/// only where another cause, or a cycle, leads to it.
pub(crate) fn travel(
    causes: &BTreeSet<&ObjectKey>,
    graph: &Graph,
    world: &impl World,
) -> BTreeMap<ObjectKey, BTreeSet<ObjectKey>> {
    let mut reached: BTreeMap<ObjectKey, BTreeSet<ObjectKey>> = BTreeMap::new();
    for cause in causes {
        let mut queue = VecDeque::from([(*cause).clone()]);
        while let Some(key) = queue.pop_front() {
            for dependant in dependants(&key, graph) {
                // An object that was seen under a cause leads to nothing new: no cycle is walked twice.
                if reached.get(dependant).is_some_and(|known| known.len() >= CAUSES_MAX || known.contains(*cause))
                    || !world.exists(dependant)
                    || world.keeps_its_version(dependant)
                {
                    continue;
                }
                reached.entry(dependant.clone()).or_default().insert((*cause).clone());
                queue.push_back(dependant.clone());
            }
        }
    }
    reached
}

fn dependants<'a>(key: &ObjectKey, graph: &'a Graph) -> impl Iterator<Item = &'a ObjectKey> {
    graph
        .nodes_of(key)
        .flat_map(|index| graph.dependants(index))
        .filter(|(_, role)| role.version_travels())
        .filter_map(|(from, _)| graph.at(from))
        .map(|node| &node.key)
}
