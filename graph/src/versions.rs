//! How versions (backfill) travel: an object that goes back to its last valid version takes its dependants along,
//! because that combination was acknowledged once.
//!
//! Versions travel by object, never by section, and never to those that others hang on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::plan::CAUSES_MAX;
use crate::{Graph, ObjectKey, World};

/// Every object that versions of `causes` reach, each with those that reach it; the causes themselves are among them
/// only where another one, or a cycle, leads to them.
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
                // Once seen under a cause, there is nothing new behind it: no cycle is walked twice.
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
