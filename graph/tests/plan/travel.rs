//! Propagation over edges: a row for each role and kind of dependant.

use holdfast_graph::{Gates, Role};

use super::world::{Ground, ISOLATE, LAST_VALID, check, graph, keys, node, nodes};

/// Closes the dependency of one edge, and backfills it, and checks whether the dependant is reached.
fn row(edge: &str, closed: Option<&str>, backfilled: bool) {
    let [from, _, to] = edge.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let target = to.split('#').next().unwrap();
    let end = |text: &str| {
        if target.starts_with("Leaf") || target.starts_with("Policy") { "excluded" } else { text }.to_owned()
    };
    let mut expected = vec![format!("{to} {} by {target}", end("replaced"))];
    expected.extend(closed.map(|step| format!("{from} {step} by {target}")));
    expected.sort();
    check(&[to], &[edge], &Ground::default(), &ISOLATE, &expected.iter().map(String::as_str).collect::<Vec<_>>());

    let mut expected = vec![format!("{target} backfilled by {target}")];
    let whole = from.split('#').next().unwrap();
    expected.extend(backfilled.then(|| format!("{whole} backfilled by {target}")));
    expected.sort();
    check(&[to], &[edge], &Ground::default(), &LAST_VALID, &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn requires_takes_routes_and_policies_along() {
    row("Route:r#rules[0] requires Leaf:b", Some("replaced"), true);
    row("Policy:p requires Leaf:b", Some("excluded"), true);
}

#[test]
fn requires_closes_a_root_and_leaves_its_version() {
    row("Root:g#listeners[a] requires Leaf:c", Some("replaced"), false);
    row("Root:g requires Leaf:c", Some("replaced"), false);
}

#[test]
fn modifies_takes_a_route_along_and_closes_a_root() {
    row("Route:r modifies Policy:p", Some("replaced"), true);
    row("Root:g modifies Policy:p", Some("replaced"), false);
    row("Root:g#listeners[a] modifies Policy:p", Some("replaced"), false);
}

#[test]
fn attaches_closes_and_leaves_versions() {
    row("Route:r attaches Root:g", Some("replaced"), false);
    row("Route:r attaches Root:g#listeners[a]", Some("replaced"), false);
}

#[test]
fn mentions_does_nothing() {
    row("Root:g mentions Route:child", None, false);
    row("Root:g mentions Leaf:log", None, false);
}

#[test]
fn roles_determine_what_travels() {
    let travels = |role: Role| (role.closing_travels(), role.version_travels());
    assert_eq!(
        [Role::Requires, Role::Modifies, Role::Inherits, Role::Attaches, Role::Mentions].map(travels),
        [(true, true), (true, true), (true, false), (true, false), (false, false)]
    );
}

const CHAIN: [&str; 4] = [
    "Route:r#rules[0] modifies Policy:p",
    "Policy:p requires Leaf:x",
    "Root:g mentions Route:r",
    "Route:child attaches Route:r#rules[0]",
];

#[test]
fn travel_is_transitive_and_stops_at_the_first_blocking_edge() {
    check(
        &["Leaf:x"],
        &CHAIN,
        &Ground::default(),
        &ISOLATE,
        &[
            "Leaf:x excluded by Leaf:x",
            "Policy:p excluded by Leaf:x",
            "Route:child replaced by Leaf:x",
            "Route:r#rules[0] replaced by Leaf:x",
        ],
    );
    check(
        &["Leaf:x"],
        &CHAIN,
        &Ground::default(),
        &LAST_VALID,
        &["Leaf:x backfilled by Leaf:x", "Policy:p backfilled by Leaf:x", "Route:r backfilled by Leaf:x"],
    );
}

#[test]
fn versions_stop_at_a_root_and_go_no_further_behind_it() {
    check(
        &["Leaf:c"],
        &["Root:g requires Leaf:c", "Route:r requires Root:g"],
        &Ground::default(),
        &LAST_VALID,
        &["Leaf:c backfilled by Leaf:c"],
    );
}

#[test]
fn versions_go_on_behind_a_dependant_that_needs_no_step_of_its_own() {
    let ground = Ground { same: keys(&["Policy:p"]), ..Ground::default() };
    check(&["Leaf:x"], &CHAIN, &ground, &LAST_VALID, &["Leaf:x backfilled by Leaf:x", "Route:r backfilled by Leaf:x"]);
}

#[test]
fn cycles_end() {
    let cycle = ["Route:a requires Route:b", "Route:b requires Route:c", "Route:c requires Route:a"];
    check(
        &["Route:a"],
        &cycle,
        &Ground::default(),
        &ISOLATE,
        &["Route:a replaced by Route:a", "Route:b replaced by Route:a", "Route:c replaced by Route:a"],
    );
    check(
        &["Route:a"],
        &cycle,
        &Ground::default(),
        &LAST_VALID,
        &["Route:a backfilled by Route:a", "Route:b backfilled by Route:a", "Route:c backfilled by Route:a"],
    );
}

#[test]
fn a_broken_section_leaves_other_sections_and_their_dependants() {
    check(
        &["Root:g#listeners[a]"],
        &[
            "Route:a attaches Root:g",
            "Route:a attaches Root:g#listeners[a]",
            "Route:b attaches Root:g",
            "Route:b attaches Root:g#listeners[b]",
            "Route:loose attaches Root:g",
        ],
        &Ground::default(),
        &ISOLATE,
        &["Root:g#listeners[a] replaced by Root:g", "Route:a replaced by Root:g"],
    );
}

#[test]
fn a_dependant_of_the_whole_is_closed_with_any_of_its_sections() {
    check(
        &["Route:x#rules[1]"],
        &["Route:y requires Route:x", "Route:z modifies Route:x", "Route:w attaches Route:x"],
        &Ground::default(),
        &ISOLATE,
        &["Route:x#rules[1] replaced by Route:x", "Route:y replaced by Route:x", "Route:z replaced by Route:x"],
    );
}

#[test]
fn closing_the_whole_closes_dependants_of_its_sections() {
    for broken in ["Root:g", "Policy:p"] {
        let edges = ["Root:g modifies Policy:p", "Route:r attaches Root:g#listeners[a]"];
        let affected = graph(&edges).affected(&node(broken));
        assert_eq!(affected.last().map(|found| &found.node), Some(&node("Route:r")), "{broken}");
    }
}

#[test]
fn a_dependant_of_several_is_closed_with_the_last_of_them() {
    let edges = ["Route:r attaches Root:g#a", "Route:r attaches Root:g#b", "Route:r attaches Root:g"];
    check(&["Root:g#a"], &edges, &Ground::default(), &ISOLATE, &["Root:g#a replaced by Root:g"]);
    check(
        &["Root:g#a", "Root:g#b"],
        &edges,
        &Ground::default(),
        &ISOLATE,
        &["Root:g#a replaced by Root:g", "Root:g#b replaced by Root:g", "Route:r replaced by Root:g"],
    );
    assert!(graph(&edges).affected(&node("Root:g#b")).is_empty());
}

#[test]
fn what_cannot_be_replaced_is_excluded() {
    let edges = ["Route:r#rules[0] requires Leaf:b", "Route:s requires Leaf:b", "Route:t requires Leaf:b"];
    let off = Gates { replace: false, ..ISOLATE };
    let ground = Ground { must_replace: nodes(&["Route:s"]), ..Ground::default() };
    check(
        &["Leaf:b"],
        &edges,
        &ground,
        &off,
        &[
            "Leaf:b excluded by Leaf:b",
            "Route:r#rules[0] excluded by Leaf:b",
            "Route:s replaced by Leaf:b",
            "Route:t excluded by Leaf:b",
        ],
    );
    let ground = Ground { cannot_replace: nodes(&["Route:r#rules[0]"]), ..ground };
    check(
        &["Leaf:b"],
        &edges,
        &ground,
        &ISOLATE,
        &[
            "Leaf:b excluded by Leaf:b",
            "Route:r#rules[0] excluded by Leaf:b",
            "Route:s replaced by Leaf:b",
            "Route:t replaced by Leaf:b",
        ],
    );
}
