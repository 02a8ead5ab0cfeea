//! The plan: what is done with whom because something is broken. Derived anew each time, remembered nowhere.
//!
//! A pure function of what is broken, of the graph, of the world and of the gates. Nothing here translates, stores or
//! asks who is to blame.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

use serde::Serialize;

use crate::{Gates, Graph, Node, ObjectKey, World, causes, versions};

/// Up to how many causes a decision names; where there are more, the first in order are named.
pub const CAUSES_MAX: usize = 64;

/// What is done with an object or a section of it; the later, the stronger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// It is served as desired.
    #[default]
    Current,
    /// Its last valid version is served.
    Backfilled,
    /// A direct response stands in its place.
    Replaced,
    /// It is left out.
    Excluded,
}

impl Step {
    /// Is it not served at all, in any version?
    pub fn is_closed(self) -> bool {
        matches!(self, Step::Replaced | Step::Excluded)
    }
}

/// As it is serialized.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Current => "current",
            Step::Backfilled => "backfilled",
            Step::Replaced => "replaced",
            Step::Excluded => "excluded",
        })
    }
}

/// A step, and the broken objects behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What is done.
    pub step: Step,
    /// Why: the broken objects from which it was reached, at most `CAUSES_MAX`. A broken object is a cause of its own.
    pub causes: BTreeSet<ObjectKey>,
}

/// What deviates from the desired snapshot, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Every deviation. Who is not here is current. Backfill stands with objects as a whole only.
    pub decisions: BTreeMap<Node, Decision>,
}

impl Plan {
    /// The plan for what is broken now.
    pub fn derive(broken: &BTreeSet<Node>, graph: &Graph, world: &impl World, gates: &Gates) -> Self {
        let mut plan = Self::default();
        let backfill = gates.isolate && gates.use_last_valid;
        let there = broken.iter().filter(|node| world.exists(&node.key));
        let (restored, closed): (Vec<&Node>, Vec<&Node>) =
            there.partition(|node| backfill && world.comes_from_versions(node) && world.last_valid(&node.key));
        plan.restore(&restored.into_iter().map(|node| &node.key).collect(), graph, world, gates);
        plan.close(&closed, graph, world, gates);
        plan
    }

    /// Takes broken objects back to their last valid versions, and their dependants with them.
    fn restore(&mut self, broken: &BTreeSet<&ObjectKey>, graph: &Graph, world: &impl World, gates: &Gates) {
        for key in broken {
            self.decide(Node::whole((*key).clone()), Step::Backfilled, BTreeSet::from([(*key).clone()]));
        }
        if !gates.backfill_dependants {
            return;
        }
        for (key, causes) in versions::travel(broken, graph, world) {
            if world.last_valid(&key) && world.differs_from_last_valid(&key) && !world.last_valid_is_worse(&key) {
                self.decide(Node::whole(key), Step::Backfilled, causes);
            }
        }
    }

    /// Closes broken nodes, and whoever cannot be served without them.
    fn close(&mut self, broken: &[&Node], graph: &Graph, world: &impl World, gates: &Gates) {
        for (node, causes) in causes::closed(broken, graph, |key| world.exists(key)) {
            let leaves_answer =
                world.serves(&node.key) && (gates.replace || world.must_replace(&node)) && world.can_replace(&node);
            let step = if leaves_answer { Step::Replaced } else { Step::Excluded };
            self.decide(node, step, causes);
        }
    }

    /// Adds a decision; of two about the same node the stronger stays, with the causes of both.
    fn decide(&mut self, node: Node, step: Step, causes: BTreeSet<ObjectKey>) {
        let decision = self.decisions.entry(node).or_default();
        decision.step = decision.step.max(step);
        for cause in causes {
            if decision.causes.len() < CAUSES_MAX {
                decision.causes.insert(cause);
            }
        }
    }

    /// True where everything is current.
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty()
    }

    /// What is done with a node: of a section the stronger of its own step and that of its object.
    pub fn step(&self, node: &Node) -> Step {
        let own = self.decisions.get(node).map_or(Step::Current, |decision| decision.step);
        if node.section.is_empty() {
            return own;
        }
        let whole = self.decisions.get(&Node::whole(node.key.clone())).map_or(Step::Current, |decision| decision.step);
        own.max(whole)
    }

    /// All decisions about an object, that about the whole of it first.
    pub fn of(&self, key: &ObjectKey) -> impl Iterator<Item = (&Node, &Decision)> {
        let from = Node::whole(key.clone());
        let own = self.decisions.range((Bound::Included(&from), Bound::Unbounded));
        own.take_while(move |(node, _)| node.key == from.key)
    }

    /// The objects of which the last valid version is served.
    pub fn backfilled(&self) -> impl Iterator<Item = &ObjectKey> {
        let backfilled = self.decisions.iter().filter(|(_, decision)| decision.step == Step::Backfilled);
        backfilled.map(|(node, _)| &node.key)
    }

    /// Everything that is replaced or excluded.
    pub fn closed(&self) -> impl Iterator<Item = (&Node, &Decision)> {
        self.decisions.iter().filter(|(_, decision)| decision.step.is_closed())
    }

    /// The broken objects behind all decisions together.
    pub fn causes(&self) -> BTreeSet<&ObjectKey> {
        self.decisions.values().flat_map(|decision| &decision.causes).collect()
    }
}
