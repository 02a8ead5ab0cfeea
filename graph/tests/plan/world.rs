//! A world for tests, in a short notation.
//!
//! A node is `Kind:name` or `Kind:name#section`; an edge is `from role to`; a plan is written as lines of `node step by
//! causes`. Roots keep their version; Leaves and Policies are not served themselves.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use holdfast_graph::{Edge, Gates, Graph, Node, ObjectKey, Plan, Role, World};

pub(crate) const ISOLATE: Gates =
    Gates { isolate: true, use_last_valid: false, backfill_dependants: true, replace: true };
pub(crate) const LAST_VALID: Gates = Gates { use_last_valid: true, ..ISOLATE };

pub(crate) fn node(text: &str) -> Node {
    let (object, section) = text.split_once('#').unwrap_or((text, ""));
    let (kind, name) = object.split_once(':').unwrap();
    Node::section(ObjectKey::new("g", kind, "", name), section)
}

pub(crate) fn key(text: &str) -> ObjectKey {
    node(text).key
}

pub(crate) fn graph(edges: &[&str]) -> Graph {
    let mut readers: BTreeMap<ObjectKey, Vec<Edge>> = BTreeMap::new();
    for edge in edges {
        let [from, role, to] = edge.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let role = match role {
            "requires" => Role::Requires,
            "modifies" => Role::Modifies,
            "inherits" => Role::Inherits,
            "attaches" => Role::Attaches,
            "mentions" => Role::Mentions,
            other => panic!("{other}"),
        };
        let edge = Edge { from: node(from), to: node(to), role };
        readers.entry(edge.from.key.clone()).or_default().push(edge);
    }
    let mut graph = Graph::default();
    for (reader, edges) in readers {
        graph.replace(&reader, edges);
    }
    graph
}

/// A world in which everything exists and has a different last valid version, unless it is listed here.
#[derive(Default)]
pub(crate) struct Ground {
    pub(crate) absent: BTreeSet<ObjectKey>,
    pub(crate) without_last_valid: BTreeSet<ObjectKey>,
    pub(crate) worse: BTreeSet<ObjectKey>,
    pub(crate) same: BTreeSet<ObjectKey>,
    pub(crate) must_replace: BTreeSet<Node>,
    pub(crate) cannot_replace: BTreeSet<Node>,
    pub(crate) queries: Cell<usize>,
}

pub(crate) fn keys(texts: &[&str]) -> BTreeSet<ObjectKey> {
    texts.iter().map(|text| key(text)).collect()
}

pub(crate) fn nodes(texts: &[&str]) -> BTreeSet<Node> {
    texts.iter().map(|text| node(text)).collect()
}

impl Ground {
    fn counted(&self, answer: bool) -> bool {
        self.queries.set(self.queries.get() + 1);
        answer
    }
}

impl World for Ground {
    fn exists(&self, key: &ObjectKey) -> bool {
        self.counted(!self.absent.contains(key))
    }
    fn last_valid(&self, key: &ObjectKey) -> bool {
        self.counted(!self.without_last_valid.contains(key))
    }
    fn last_valid_is_worse(&self, key: &ObjectKey) -> bool {
        self.counted(self.worse.contains(key))
    }
    fn keeps_its_version(&self, key: &ObjectKey) -> bool {
        self.counted(&*key.kind == "Root")
    }
    fn differs_from_last_valid(&self, key: &ObjectKey) -> bool {
        self.counted(!self.same.contains(key))
    }
    fn must_replace(&self, node: &Node) -> bool {
        self.counted(self.must_replace.contains(node))
    }
    fn can_replace(&self, node: &Node) -> bool {
        self.counted(!self.cannot_replace.contains(node))
    }
    fn serves(&self, key: &ObjectKey) -> bool {
        self.counted(!matches!(&*key.kind, "Leaf" | "Policy" | "Class"))
    }
}

fn short(key: &ObjectKey) -> String {
    format!("{}:{}", key.kind, key.name)
}

pub(crate) fn lines(plan: &Plan) -> Vec<String> {
    let line = |node: &Node, section: &str| format!("{}{section}", short(&node.key));
    plan.decisions
        .iter()
        .map(|(node, decision)| {
            let section = if node.section.is_empty() { String::new() } else { format!("#{}", node.section) };
            let causes: Vec<_> = decision.causes.iter().map(short).collect();
            format!("{} {} by {}", line(node, &section), decision.step, causes.join(" "))
        })
        .collect()
}

/// Derives a plan and compares it.
pub(crate) fn check(broken: &[&str], edges: &[&str], ground: &Ground, gates: &Gates, expected: &[&str]) {
    let plan = Plan::derive(&nodes(broken), &BTreeSet::new(), &graph(edges), ground, gates);
    assert_eq!(lines(&plan), expected, "broken: {broken:?}, edges: {edges:?}, {gates:?}");
}
