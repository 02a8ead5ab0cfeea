//! The cases of Kong's fallback, in terms of Holdfast, and the effects of the gates on them.

use std::collections::BTreeSet;

use holdfast_graph::{Gates, Plan, Step};

use super::world::graph;
use super::world::{Ground, ISOLATE, LAST_VALID, check, keys, lines, node, nodes};

#[test]
fn a_broken_leaf_takes_only_itself() {
    let edges = ["Route:r requires Leaf:b", "Route:r modifies Policy:p"];
    check(&["Leaf:alone"], &edges, &Ground::default(), &ISOLATE, &["Leaf:alone excluded by Leaf:alone"]);
    check(&["Leaf:alone"], &edges, &Ground::default(), &LAST_VALID, &["Leaf:alone backfilled by Leaf:alone"]);
}

#[test]
fn a_broken_class_takes_service_and_route_along_and_leaves_the_policy() {
    let edges = ["Leaf:service requires Class:c", "Route:r requires Leaf:service", "Route:r modifies Policy:p"];
    check(
        &["Class:c"],
        &edges,
        &Ground::default(),
        &ISOLATE,
        &["Class:c excluded by Class:c", "Leaf:service excluded by Class:c", "Route:r replaced by Class:c"],
    );
    check(
        &["Class:c"],
        &edges,
        &Ground::default(),
        &LAST_VALID,
        &["Class:c backfilled by Class:c", "Leaf:service backfilled by Class:c", "Route:r backfilled by Class:c"],
    );
}

#[test]
fn a_broken_policy_goes_back_together_with_its_route() {
    let edges = ["Route:r modifies Policy:p", "Route:r requires Leaf:b", "Route:other requires Leaf:b"];
    check(
        &["Policy:p"],
        &edges,
        &Ground::default(),
        &LAST_VALID,
        &["Policy:p backfilled by Policy:p", "Route:r backfilled by Policy:p"],
    );
    let alone = Gates { backfill_dependants: false, ..LAST_VALID };
    check(&["Policy:p"], &edges, &Ground::default(), &alone, &["Policy:p backfilled by Policy:p"]);
}

#[test]
fn an_object_without_last_valid_version_stays_out() {
    let ground = Ground { without_last_valid: keys(&["Policy:p"]), ..Ground::default() };
    check(
        &["Policy:p"],
        &["Route:r modifies Policy:p"],
        &ground,
        &LAST_VALID,
        &["Policy:p excluded by Policy:p", "Route:r replaced by Policy:p"],
    );
}

#[test]
fn a_dependant_without_last_valid_version_stays_current() {
    let ground = Ground { without_last_valid: keys(&["Route:r"]), ..Ground::default() };
    let expected = ["Policy:p backfilled by Policy:p"];
    check(&["Policy:p"], &["Route:r modifies Policy:p"], &ground, &LAST_VALID, &expected);
}

#[test]
fn a_dependant_that_would_be_worse_off_stays_current() {
    let ground = Ground { worse: keys(&["Route:r"]), ..Ground::default() };
    let expected = ["Policy:p backfilled by Policy:p"];
    check(&["Policy:p"], &["Route:r modifies Policy:p"], &ground, &LAST_VALID, &expected);
}

#[test]
fn several_roots() {
    let edges = ["Route:r attaches Root:a", "Route:r attaches Root:b", "Route:s attaches Root:a"];
    let expected = ["Root:a replaced by Root:a", "Route:s replaced by Root:a"];
    check(&["Root:a"], &edges, &Ground::default(), &ISOLATE, &expected);
    let expected = [
        "Root:a replaced by Root:a",
        "Root:b replaced by Root:b",
        "Route:r replaced by Root:a Root:b",
        "Route:s replaced by Root:a",
    ];
    check(&["Root:a", "Root:b"], &edges, &Ground::default(), &ISOLATE, &expected);
    // A deleted root does not keep its dependants.
    let ground = Ground { absent: keys(&["Root:b"]), ..Ground::default() };
    let expected = ["Root:a replaced by Root:a", "Route:r replaced by Root:a", "Route:s replaced by Root:a"];
    check(&["Root:a"], &edges, &ground, &ISOLATE, &expected);
}

#[test]
fn several_broken_are_all_named() {
    let edges = ["Route:r modifies Policy:p", "Route:r requires Leaf:b", "Route:s requires Leaf:b"];
    check(
        &["Policy:p", "Leaf:b"],
        &edges,
        &Ground::default(),
        &LAST_VALID,
        &[
            "Leaf:b backfilled by Leaf:b",
            "Policy:p backfilled by Policy:p",
            "Route:r backfilled by Leaf:b Policy:p",
            "Route:s backfilled by Leaf:b",
        ],
    );
}

#[test]
fn the_stronger_step_wins_and_all_causes_are_named() {
    let edges = ["Route:r modifies Policy:p", "Route:r requires Leaf:b"];
    let ground = Ground { without_last_valid: keys(&["Leaf:b"]), ..Ground::default() };
    check(
        &["Policy:p", "Leaf:b"],
        &edges,
        &ground,
        &LAST_VALID,
        &["Leaf:b excluded by Leaf:b", "Policy:p backfilled by Policy:p", "Route:r replaced by Leaf:b Policy:p"],
    );
}

#[test]
fn a_broken_rule_sends_its_whole_object_back() {
    let expected = ["Route:r backfilled by Route:r"];
    check(&["Route:r#rules[0]", "Route:r#rules[2]"], &[], &Ground::default(), &LAST_VALID, &expected);
    let expected = ["Route:r#rules[0] replaced by Route:r", "Route:r#rules[2] replaced by Route:r"];
    check(&["Route:r#rules[0]", "Route:r#rules[2]"], &[], &Ground::default(), &ISOLATE, &expected);
}

#[test]
fn without_isolation_nothing_goes_back_and_what_must_close_closes() {
    let edges = ["Route:r modifies Policy:p", "Route:s requires Leaf:b"];
    let off = Gates { isolate: false, ..LAST_VALID };
    let expected = ["Policy:p excluded by Policy:p", "Route:r replaced by Policy:p"];
    check(&["Policy:p"], &edges, &Ground::default(), &off, &expected);
}

#[test]
fn an_untried_object_keeps_its_last_valid_version_without_backfill() {
    let edges = ["Route:r requires Leaf:b", "Route:s requires Leaf:c"];
    let broken = nodes(&["Leaf:b", "Route:r#rules[0]", "Route:s#rules[0]", "Route:t#rules[0]"]);
    let untried = keys(&["Route:r", "Route:s", "Route:t"]);
    let ground = Ground { without_last_valid: keys(&["Route:t"]), ..Ground::default() };
    let plan = Plan::derive(&broken, &untried, &graph(&edges), &ground, &ISOLATE);
    // What depends on a broken object is closed with it, and what has no last valid version is closed as well.
    let expected = [
        "Leaf:b excluded by Leaf:b",
        "Route:r replaced by Leaf:b",
        "Route:r#rules[0] replaced by Route:r",
        "Route:s backfilled by Route:s",
        "Route:t#rules[0] replaced by Route:t",
    ];
    assert_eq!(lines(&plan), expected);
}

#[test]
fn a_plan_answers_by_section_and_object() {
    let edges = ["Route:r#rules[0] requires Leaf:b", "Route:r modifies Policy:p", "Route:s requires Policy:p"];
    let ground = Ground { without_last_valid: keys(&["Leaf:b"]), ..Ground::default() };
    let plan = Plan::derive(&nodes(&["Leaf:b", "Policy:p"]), &BTreeSet::new(), &graph(&edges), &ground, &LAST_VALID);
    let step = |text: &str| plan.step(&node(text));
    assert_eq!(step("Route:r"), Step::Backfilled);
    assert_eq!((step("Route:r#rules[0]"), step("Route:r#rules[1]")), (Step::Replaced, Step::Backfilled));
    assert_eq!((step("Leaf:b"), step("Leaf:other"), plan.is_empty()), (Step::Excluded, Step::Current, false));
    assert_eq!(plan.of(&node("Route:r").key).count(), 2);
    assert_eq!(plan.backfilled().map(|key| &*key.name).collect::<Vec<_>>(), ["p", "r", "s"]);
    assert_eq!(plan.closed().map(|(node, _)| &*node.key.name).collect::<Vec<_>>(), ["b", "r"]);
    assert_eq!(plan.causes().len(), 2);
}
