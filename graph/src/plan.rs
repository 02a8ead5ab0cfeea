//! The plan: what is done with which object because something is broken. The plan is derived from scratch each time and
//! never stored.
//!
//! The plan is a pure function of the broken objects, the graph, the world and the gates. This module does not
//! translate, store or attribute blame.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

use serde::Serialize;

use crate::{Gates, Graph, Node, ObjectKey, World, causes, versions};

/// Maximum number of causes of a decision; where there are more, the first in order are named.
pub const CAUSES_MAX: usize = 64;

/// What is done with an object or a section of it; a later step is stronger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// The desired version is served.
    #[default]
    Current,
    /// The last valid version is served.
    Backfilled,
    /// A direct response is served instead.
    Replaced,
    /// The object or section is left out.
    Excluded,
}

impl Step {
    /// Returns whether nothing is served, in any version.
    pub fn is_closed(self) -> bool {
        matches!(self, Step::Replaced | Step::Excluded)
    }
}

/// Writes the step as it is serialized.
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

/// A step, with the broken objects that cause it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The step.
    pub step: Step,
    /// The broken objects that cause the step, at most `CAUSES_MAX`. A broken object is its own cause.
    pub causes: BTreeSet<ObjectKey>,
}

/// Deviations from the desired snapshot, with their causes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Every deviation. Nodes that are not listed are current. Backfill applies to whole objects only.
    pub decisions: BTreeMap<Node, Decision>,
}

impl Plan {
    /// Returns the plan for the objects that are broken now.
    ///
    /// An object in `untried` is not known to be broken: until its new content is tried, its last valid version stays
    /// served, whether or not `gates` allow backfill.
    pub fn derive(
        broken: &BTreeSet<Node>,
        untried: &BTreeSet<ObjectKey>,
        graph: &Graph,
        world: &impl World,
        gates: &Gates,
    ) -> Self {
        let mut plan = Self::default();
        let backfill = gates.isolate && gates.use_last_valid;
        let there = broken.iter().filter(|node| world.exists(&node.key));
        let (mut restored, mut closed): (Vec<&Node>, Vec<&Node>) = there.partition(|node| {
            (backfill || untried.contains(&node.key)) && world.comes_from_versions(node) && world.last_valid(&node.key)
        });
        let mut closing = causes::closed(&closed, graph, |key| world.exists(key));
        if !backfill && !restored.is_empty() {
            // An untried object is closed together with the broken objects that it depends on.
            let reached: BTreeSet<ObjectKey> = closing.keys().map(|node| node.key.clone()).collect();
            closed.extend(restored.extract_if(.., |node| reached.contains(&node.key)));
            closing = causes::closed(&closed, graph, |key| world.exists(key));
        }
        plan.restore(&restored.into_iter().map(|node| &node.key).collect(), graph, world, gates);
        plan.close(closing, world, gates);
        plan
    }

    /// Backfills broken objects with their last valid versions, and their dependants with them.
    fn restore(&mut self, broken: &BTreeSet<&ObjectKey>, graph: &Graph, world: &impl World, gates: &Gates) {
        for key in broken {
            self.decide(Node::whole((*key).clone()), Step::Backfilled, BTreeSet::from([(*key).clone()]));
        }
        if !gates.use_last_valid || !gates.backfill_dependants {
            return;
        }
        for (key, causes) in versions::travel(broken, graph, world) {
            if world.last_valid(&key) && world.differs_from_last_valid(&key) && !world.last_valid_is_worse(&key) {
                self.decide(Node::whole(key), Step::Backfilled, causes);
            }
        }
    }

    /// Closes broken nodes, and the nodes that cannot be served without them.
    fn close(&mut self, causes: BTreeMap<Node, BTreeSet<ObjectKey>>, world: &impl World, gates: &Gates) {
        for (node, causes) in causes {
            let leaves_answer =
                world.serves(&node.key) && (gates.replace || world.must_replace(&node)) && world.can_replace(&node);
            let step = if leaves_answer { Step::Replaced } else { Step::Excluded };
            self.decide(node, step, causes);
        }
    }

    /// Adds a decision; of two decisions about one node, the stronger step is kept, with the causes of both.
    fn decide(&mut self, node: Node, step: Step, causes: BTreeSet<ObjectKey>) {
        let decision = self.decisions.entry(node).or_default();
        decision.step = decision.step.max(step);
        for cause in causes {
            if decision.causes.len() < CAUSES_MAX {
                decision.causes.insert(cause);
            }
        }
    }

    /// Returns whether everything is current.
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty()
    }

    /// Returns the step of a node: for a section, the stronger of its own step and that of its object.
    pub fn step(&self, node: &Node) -> Step {
        let own = self.decisions.get(node).map_or(Step::Current, |decision| decision.step);
        if node.section.is_empty() {
            return own;
        }
        let whole = self.decisions.get(&Node::whole(node.key.clone())).map_or(Step::Current, |decision| decision.step);
        own.max(whole)
    }

    /// Returns all decisions about an object, the decision about the whole object first.
    pub fn of(&self, key: &ObjectKey) -> impl Iterator<Item = (&Node, &Decision)> {
        let from = Node::whole(key.clone());
        let own = self.decisions.range((Bound::Included(&from), Bound::Unbounded));
        own.take_while(move |(node, _)| node.key == from.key)
    }

    /// Returns the objects that are served in their last valid version.
    pub fn backfilled(&self) -> impl Iterator<Item = &ObjectKey> {
        let backfilled = self.decisions.iter().filter(|(_, decision)| decision.step == Step::Backfilled);
        backfilled.map(|(node, _)| &node.key)
    }

    /// Returns every decision with a replaced or excluded node.
    pub fn closed(&self) -> impl Iterator<Item = (&Node, &Decision)> {
        self.decisions.iter().filter(|(_, decision)| decision.step.is_closed())
    }

    /// Returns the broken objects that cause all decisions together.
    pub fn causes(&self) -> BTreeSet<&ObjectKey> {
        self.decisions.values().flat_map(|decision| &decision.causes).collect()
    }
}
