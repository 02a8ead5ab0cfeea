//! Cost of a plan: proportional to the reached nodes, not to all nodes. Measured as the number of queries to the world.

use std::collections::BTreeSet;

use holdfast_graph::plan::CAUSES_MAX;
use holdfast_graph::{Gates, Plan};

use super::world::{Ground, ISOLATE, LAST_VALID, graph, nodes};

fn queries(objects: usize, broken: &[&str], gates: &Gates) -> usize {
    let edges: Vec<String> = (0..objects)
        .flat_map(|index| {
            [
                format!("Route:{index}#rules[0] requires Leaf:{index}"),
                format!("Route:{index} attaches Root:g"),
                format!("Route:{index} attaches Root:g#listeners[a]"),
            ]
        })
        .collect();
    let graph = graph(&edges.iter().map(String::as_str).collect::<Vec<_>>());
    let ground = Ground::default();
    assert!(!Plan::derive(&nodes(broken), &BTreeSet::new(), &graph, &ground, gates).is_empty());
    ground.queries.get()
}

#[test]
fn a_plan_costs_what_is_reached() {
    for gates in [&ISOLATE, &LAST_VALID] {
        for broken in [&["Leaf:7"][..], &["Leaf:1", "Leaf:2", "Route:3#rules[0]"]] {
            let (small, large) = (queries(10, broken, gates), queries(1_000, broken, gates));
            assert_eq!(small, large, "{broken:?} {gates:?}");
            assert!(large <= 20 * broken.len(), "{large}");
        }
    }
}

#[test]
fn many_broken_that_reach_the_same_are_named_up_to_the_limit() {
    let leaves = 10 * CAUSES_MAX;
    let broken: Vec<String> = (0..leaves).map(|index| format!("Leaf:{index:04}")).collect();
    let broken: Vec<&str> = broken.iter().map(String::as_str).collect();
    let mut edges: Vec<String> = broken.iter().map(|leaf| format!("Route:hub requires {leaf}")).collect();
    edges.extend((0..100).map(|index| format!("Route:{index} requires Route:hub")));
    let graph = graph(&edges.iter().map(String::as_str).collect::<Vec<_>>());
    for gates in [&ISOLATE, &LAST_VALID] {
        let ground = Ground::default();
        let plan = Plan::derive(&nodes(&broken), &BTreeSet::new(), &graph, &ground, gates);
        assert_eq!(plan.decisions.len(), leaves + 101);
        assert!(plan.decisions.values().all(|decision| [1, CAUSES_MAX].contains(&decision.causes.len())));
        // The cost is not the product of all broken nodes and all nodes that they reach.
        assert!(ground.queries.get() < 4 * CAUSES_MAX * 100 + 10 * leaves, "{}", ground.queries.get());
    }
}
