//! Tests of what must never happen: a deleted object does not come back, a healthy newer version is not overwritten.

use std::collections::BTreeSet;

use holdfast_graph::Plan;

use super::world::{Ground, ISOLATE, LAST_VALID, check, graph, key, keys, lines, nodes};

const EDGES: [&str; 3] = ["Route:r requires Leaf:b", "Route:r modifies Policy:p", "Route:s modifies Policy:p"];

#[test]
fn a_deleted_broken_object_is_in_no_plan() {
    let ground = Ground { absent: keys(&["Leaf:b"]), ..Ground::default() };
    check(&["Leaf:b"], &EDGES, &ground, &LAST_VALID, &[]);
    check(&["Leaf:b"], &EDGES, &ground, &ISOLATE, &[]);
}

#[test]
fn a_deleted_dependant_does_not_come_back() {
    let ground = Ground { absent: keys(&["Route:r"]), ..Ground::default() };
    let expected = ["Policy:p backfilled by Policy:p", "Route:s backfilled by Policy:p"];
    check(&["Policy:p"], &EDGES, &ground, &LAST_VALID, &expected);
    let expected = ["Policy:p excluded by Policy:p", "Route:s replaced by Policy:p"];
    check(&["Policy:p"], &EDGES, &ground, &ISOLATE, &expected);
}

#[test]
fn no_dependant_is_reached_through_a_deleted_object() {
    let edges = ["Route:r requires Leaf:gone", "Leaf:gone requires Leaf:b"];
    let ground = Ground { absent: keys(&["Leaf:gone"]), ..Ground::default() };
    check(&["Leaf:b"], &edges, &ground, &LAST_VALID, &["Leaf:b backfilled by Leaf:b"]);
    check(&["Leaf:b"], &edges, &ground, &ISOLATE, &["Leaf:b excluded by Leaf:b"]);
}

#[test]
fn a_detached_dependant_stays_current() {
    let mut graph = graph(&EDGES);
    graph.replace(&key("Route:s"), vec![]);
    let plan = Plan::derive(&nodes(&["Policy:p"]), &BTreeSet::new(), &graph, &Ground::default(), &LAST_VALID);
    assert_eq!(lines(&plan), ["Policy:p backfilled by Policy:p", "Route:r backfilled by Policy:p"]);
}

#[test]
fn a_healthy_newer_version_stays_unless_an_edge_leads_to_it() {
    // Neighbours under the same root, and nodes that only mention a reached node, are not reached.
    let edges = [
        "Route:r requires Leaf:b",
        "Route:r attaches Root:g",
        "Route:s attaches Root:g",
        "Route:s mentions Leaf:b",
        "Route:t mentions Route:r",
    ];
    let expected = ["Leaf:b backfilled by Leaf:b", "Route:r backfilled by Leaf:b"];
    check(&["Leaf:b"], &edges, &Ground::default(), &LAST_VALID, &expected);
    // A broken root does not reach the objects that are attached to it: teams are not frozen because a root is broken.
    check(&["Root:g"], &edges, &Ground::default(), &LAST_VALID, &["Root:g backfilled by Root:g"]);
}

#[test]
fn nothing_broken_gives_no_plan() {
    check(&[], &EDGES, &Ground::default(), &LAST_VALID, &[]);
}
