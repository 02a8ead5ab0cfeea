//! Nodes that closing reaches, with the broken objects that cause it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use petgraph::stable_graph::NodeIndex;

use crate::closing::ClosingWalk;
use crate::plan::CAUSES_MAX;
use crate::{Graph, Node, ObjectKey};

/// Returns every node that is closed because of `broken`, including the broken nodes themselves, each with its causes.
///
/// The first step computes the closed nodes, which depend on all broken nodes together. The second step computes, for
/// each broken object, which of these nodes it reaches. A node is walked at most `CAUSES_MAX` times.
pub(crate) fn closed(
    broken: &[&Node],
    graph: &Graph,
    exists: impl Fn(&ObjectKey) -> bool,
) -> BTreeMap<Node, BTreeSet<ObjectKey>> {
    let mut closing = ClosingWalk::new(graph, exists);
    broken.iter().for_each(|node| closing.close(node));
    closing.finish();

    let mut reached: HashMap<NodeIndex, BTreeSet<ObjectKey>> = HashMap::new();
    let in_order: BTreeSet<&Node> = broken.iter().copied().collect();
    for cause in &in_order {
        let mut queue = VecDeque::from([*cause]);
        while let Some(node) = queue.pop_front() {
            for next in closing.closes(node) {
                let causes = reached.entry(next).or_default();
                // The nodes behind a node that is full, or was seen under this cause, have the same number of causes
                // already.
                if causes.len() < CAUSES_MAX && causes.insert(cause.key.clone()) {
                    queue.extend(graph.at(next));
                }
            }
        }
    }

    let mut closed: BTreeMap<Node, BTreeSet<ObjectKey>> =
        in_order.into_iter().map(|node| (node.clone(), BTreeSet::from([node.key.clone()]))).collect();
    for (index, causes) in reached {
        if let Some(node) = graph.at(index) {
            let known = closed.entry(node.clone()).or_default();
            known.extend(causes.into_iter().take(CAUSES_MAX - known.len()));
        }
    }
    closed
}
