//! The plan by brute force: every rule written once, applied to all pairs of nodes until nothing changes.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_graph::{Decision, Edge, Gates, Node, ObjectKey, Role, Step, World};

type Causes = BTreeMap<Node, BTreeSet<ObjectKey>>;

pub(crate) fn plan(
    broken: &BTreeSet<Node>,
    edges: &[Edge],
    world: &impl World,
    gates: &Gates,
) -> BTreeMap<Node, Decision> {
    let backfill = gates.isolate && gates.use_last_valid;
    let mut plan: BTreeMap<Node, Decision> = BTreeMap::new();
    let mut add = |node: Node, step: Step, causes: BTreeSet<ObjectKey>| {
        let decision = plan.entry(node).or_default();
        decision.step = decision.step.max(step);
        decision.causes.extend(causes);
    };
    let there: Vec<&Node> = broken.iter().filter(|node| world.exists(&node.key)).collect();
    let mut seeds = BTreeSet::new();
    for node in there {
        if !(backfill && world.last_valid(&node.key)) {
            seeds.insert(node.clone());
            continue;
        }
        add(Node::whole(node.key.clone()), Step::Backfilled, BTreeSet::from([node.key.clone()]));
        for key in versions(&node.key, edges, world) {
            let goes =
                world.last_valid(&key) && world.differs_from_last_valid(&key) && !world.last_valid_is_worse(&key);
            if goes && gates.backfill_dependants {
                add(Node::whole(key), Step::Backfilled, BTreeSet::from([node.key.clone()]));
            }
        }
    }
    for (node, causes) in closed(&seeds, edges, world) {
        let answer =
            world.can_replace(&node) && world.serves(&node.key) && (world.must_replace(&node) || gates.replace);
        add(node, if answer { Step::Replaced } else { Step::Excluded }, causes);
    }
    plan
}

fn versions(from: &ObjectKey, edges: &[Edge], world: &impl World) -> BTreeSet<ObjectKey> {
    let mut reached = BTreeSet::new();
    loop {
        let before = reached.len();
        for edge in edges.iter().filter(|edge| matches!(edge.role, Role::Requires | Role::Modifies)) {
            let moves = edge.to.key == *from || reached.contains(&edge.to.key);
            if moves && world.exists(&edge.from.key) && !world.keeps_its_version(&edge.from.key) {
                reached.insert(edge.from.key.clone());
            }
        }
        if reached.len() == before {
            return reached;
        }
    }
}

fn whole(node: &Node) -> bool {
    node.section.is_empty()
}

/// Returns whether the edge names `closed`, or something that closes with it.
fn names(edge: &Edge, closed: &Node) -> bool {
    edge.to.key == closed.key
        && (edge.to == *closed || whole(closed) || (whole(&edge.to) && edge.role != Role::Attaches))
}

/// Returns whether `node` is still attached to something.
fn attached(node: &Node, edges: &[Edge], closed: &BTreeSet<Node>, world: &impl World) -> bool {
    let anchors: Vec<&Node> =
        edges.iter().filter(|edge| edge.from == *node && edge.role == Role::Attaches).map(|edge| &edge.to).collect();
    anchors.iter().any(|anchor| {
        let at_large = whole(anchor) && anchors.iter().any(|other| other.key == anchor.key && !whole(other));
        let gone = closed.contains(anchor) || closed.contains(&Node::whole(anchor.key.clone()));
        world.exists(&anchor.key) && !at_large && !gone
    })
}

fn closes(edge: &Edge, by: &Node, edges: &[Edge], closed: &BTreeSet<Node>, world: &impl World) -> bool {
    names(edge, by)
        && world.exists(&edge.from.key)
        && match edge.role {
            Role::Requires | Role::Modifies | Role::Inherits => true,
            Role::Attaches => !attached(&edge.from, edges, closed, world),
            Role::Mentions => false,
        }
}

fn closed(seeds: &BTreeSet<Node>, edges: &[Edge], world: &impl World) -> Causes {
    let mut closed = seeds.clone();
    loop {
        let more: BTreeSet<Node> = edges
            .iter()
            .filter(|edge| closed.iter().any(|by| closes(edge, by, edges, &closed, world)))
            .map(|edge| edge.from.clone())
            .collect();
        let before = closed.len();
        closed.extend(more);
        if closed.len() == before {
            break;
        }
    }
    let mut causes: Causes = closed.iter().map(|node| (node.clone(), BTreeSet::new())).collect();
    for seed in seeds {
        causes.get_mut(seed).unwrap().insert(seed.key.clone());
    }
    loop {
        let before = causes.clone();
        for edge in edges {
            for by in &closed {
                if closes(edge, by, edges, &closed, world) {
                    let from = before[by].clone();
                    causes.get_mut(&edge.from).unwrap().extend(from);
                }
            }
        }
        if causes == before {
            return causes;
        }
    }
}
