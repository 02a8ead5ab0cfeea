//! Random graphs of up to twelve nodes: the plan equals that of the oracle, in any order of insertion.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_graph::{Edge, Gates, Graph, Node, ObjectKey, Plan, Role, Step, World};
use proptest::prelude::*;

use super::oracle;

const OBJECTS: usize = 4;
const SECTIONS: [&str; 3] = ["", "a", "b"];

fn node() -> impl Strategy<Value = Node> {
    (0..OBJECTS, 0..SECTIONS.len()).prop_map(|(object, section)| {
        Node::section(ObjectKey::new("g", "Thing", "", format!("{object}")), SECTIONS[section])
    })
}

fn edge() -> impl Strategy<Value = Edge> {
    let role = prop_oneof![
        3 => Just(Role::Requires),
        2 => Just(Role::Modifies),
        1 => Just(Role::Inherits),
        3 => Just(Role::Attaches),
        1 => Just(Role::Mentions)
    ];
    (node(), node(), role).prop_map(|(from, to, role)| Edge { from, to, role })
}

/// Answers of the world, as sets.
#[derive(Clone, Debug)]
struct Answers {
    objects: Vec<[bool; 6]>,
    nodes: BTreeSet<Node>,
}

impl Answers {
    fn of(&self, key: &ObjectKey, which: usize) -> bool {
        self.objects[key.name.parse::<usize>().unwrap()][which]
    }
}

impl World for Answers {
    fn exists(&self, key: &ObjectKey) -> bool {
        self.of(key, 0)
    }
    fn last_valid(&self, key: &ObjectKey) -> bool {
        self.of(key, 1)
    }
    fn last_valid_is_worse(&self, key: &ObjectKey) -> bool {
        self.of(key, 2)
    }
    fn keeps_its_version(&self, key: &ObjectKey) -> bool {
        self.of(key, 3)
    }
    fn differs_from_last_valid(&self, key: &ObjectKey) -> bool {
        self.of(key, 4)
    }
    fn must_replace(&self, node: &Node) -> bool {
        self.nodes.contains(node)
    }
    fn can_replace(&self, node: &Node) -> bool {
        !self.nodes.contains(&Node::section(node.key.clone(), format!("{}!", node.section)))
    }
    fn serves(&self, key: &ObjectKey) -> bool {
        self.of(key, 5)
    }
}

fn answers() -> impl Strategy<Value = Answers> {
    let yes = || prop::bool::weighted(0.85);
    let no = || prop::bool::weighted(0.15);
    let object = (yes(), any::<bool>(), no(), no(), yes(), yes());
    let objects = prop::collection::vec(object.prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f]), OBJECTS);
    // A node that must be replaced is listed by name, a node that cannot be replaced with a mark after the name.
    let marked = (node(), any::<bool>()).prop_map(|(node, refused)| match refused {
        true => Node::section(node.key, format!("{}!", node.section)),
        false => node,
    });
    (objects, prop::collection::btree_set(marked, 0..4)).prop_map(|(objects, nodes)| Answers { objects, nodes })
}

fn gates() -> impl Strategy<Value = Gates> {
    (prop::bool::weighted(0.8), any::<bool>(), prop::bool::weighted(0.8), any::<bool>()).prop_map(
        |(isolate, use_last_valid, backfill_dependants, replace)| Gates {
            isolate,
            use_last_valid,
            backfill_dependants,
            replace,
        },
    )
}

fn by_reader(edges: &[Edge]) -> BTreeMap<ObjectKey, Vec<Edge>> {
    let mut readers: BTreeMap<ObjectKey, Vec<Edge>> = BTreeMap::new();
    for edge in edges {
        readers.entry(edge.from.key.clone()).or_default().push(edge.clone());
    }
    readers
}

fn built(edges: &[Edge]) -> Graph {
    let mut graph = Graph::default();
    by_reader(edges).into_iter().for_each(|(reader, edges)| graph.replace(&reader, edges));
    graph
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_plan_is_that_of_the_oracle(
        edges in prop::collection::vec(edge(), 0..20),
        broken in prop::collection::btree_set(node(), 0..4),
        world in answers(),
        gates in gates(),
    ) {
        let plan = Plan::derive(&broken, &BTreeSet::new(), &built(&edges), &world, &gates);
        prop_assert_eq!(plan.decisions, oracle::plan(&broken, &edges, &world, &gates));
    }

    #[test]
    fn the_plan_does_not_depend_on_the_order_of_insertion(
        edges in prop::collection::vec(edge(), 0..20),
        before in prop::collection::vec(edge(), 0..20),
        order in Just((0..OBJECTS).collect::<Vec<_>>()).prop_shuffle(),
        broken in prop::collection::btree_set(node(), 0..4),
        world in answers(),
        gates in gates(),
    ) {
        let mut graph = built(&before);
        let mut readers = by_reader(&edges);
        for object in order {
            let key = ObjectKey::new("g", "Thing", "", format!("{object}"));
            let mut edges = readers.remove(&key).unwrap_or_default();
            edges.reverse();
            graph.replace(&key, edges);
        }
        let fresh = built(&edges);
        prop_assert_eq!(
            Plan::derive(&broken, &BTreeSet::new(), &graph, &world, &gates),
            Plan::derive(&broken, &BTreeSet::new(), &fresh, &world, &gates)
        );
        for node in &broken {
            prop_assert_eq!(graph.affected(node), fresh.affected(node));
        }
    }

    #[test]
    fn what_is_in_a_plan_exists_and_has_a_broken_cause(
        edges in prop::collection::vec(edge(), 0..20),
        broken in prop::collection::btree_set(node(), 0..4),
        world in answers(),
        gates in gates(),
    ) {
        let plan = Plan::derive(&broken, &BTreeSet::new(), &built(&edges), &world, &gates);
        for (node, decision) in &plan.decisions {
            prop_assert!(world.exists(&node.key) && decision.step != Step::Current && !decision.causes.is_empty());
            let known = |cause: &ObjectKey| world.exists(cause) && broken.iter().any(|node| node.key == *cause);
            prop_assert!(decision.causes.iter().all(known));
            if decision.step == Step::Backfilled {
                prop_assert!(node.section.is_empty() && world.last_valid(&node.key));
            }
        }
        for node in broken.iter().filter(|node| world.exists(&node.key)) {
            prop_assert!(plan.step(node) != Step::Current);
        }
    }

    #[test]
    fn affected_nodes_are_those_that_closing_reaches(
        edges in prop::collection::vec(edge(), 0..20),
        broken in node(),
    ) {
        let all = Answers { objects: vec![[true, false, false, false, true, true]; OBJECTS], nodes: BTreeSet::new() };
        let gates = Gates { isolate: true, replace: true, ..Gates::default() };
        let plan = oracle::plan(&BTreeSet::from([broken.clone()]), &edges, &all, &gates);
        let others = plan.into_keys().filter(|node| {
            *node != broken && !(broken.section.is_empty() && node.key == broken.key)
        });
        let affected = built(&edges).affected(&broken);
        let mut found: Vec<Node> = affected.iter().map(|found| found.node.clone()).collect();
        found.sort();
        prop_assert_eq!(found, others.collect::<Vec<_>>());
    }
}
