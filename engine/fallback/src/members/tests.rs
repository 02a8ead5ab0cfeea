//! Tests of the table of members.

use holdfast_graph::Origins;
use holdfast_xds::Resource;

use super::*;

const ROUTE: ResourceType = ResourceType::Route;

fn node(name: &str) -> Arc<str> {
    name.into()
}

/// Returns a table of Envoys of this replica that resumed at time 0.
fn resumed(nodes: &[&str]) -> Members {
    let mut members = Members::default();
    nodes.iter().for_each(|name| members.connect(&node(name), false, true, 0));
    members
}

fn snapshot(name: &str, body: &'static str) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.insert(ROUTE, Arc::new(Resource::new(name, body.as_bytes(), Origins::default())));
    snapshot
}

/// Records that an Envoy refuses the route configuration with this body.
fn refuse(members: &mut Members, name: &str, body: &str) {
    let version = Version::of(body.as_bytes());
    members.keeps(&node(name), (ROUTE, node("r")), version, "bad", &snapshot("r", "old"));
}

fn names<'a>(nodes: impl Iterator<Item = &'a Arc<str>>) -> Vec<&'a str> {
    nodes.map(|node| &**node).collect()
}

#[test]
fn an_envoy_is_connected_until_its_last_stream_ends() {
    let mut members = resumed(&["b", "a", "b"]);
    assert_eq!(names(members.nodes()), ["a", "b"]);
    assert_eq!(members.streams().map(|(_, streams)| streams).collect::<Vec<_>>(), [1, 2]);
    assert!(members.disconnect("b").is_none() && members.is_connected("b"));
    assert!(members.disconnect("b").is_some_and(|left| !left.is_remote()));
    assert!(!members.is_connected("b") && members.disconnect("b").is_none());
    assert!(members.disconnect("a").is_some() && members.is_empty());
}

#[test]
fn everything_about_an_envoy_is_removed_with_its_last_stream() {
    let mut members = Members::default();
    members.connect(&node("a"), true, false, 5);
    members.answered(&node("a"), 6);
    members.fell_silent(&node("a"));
    refuse(&mut members, "a", "new");
    assert!(members.disconnect("a").is_some_and(|left| left.is_remote()));
    members.connect(&node("a"), false, true, 7);
    assert!(members.is_local("a") && !members.is_fresh("a") && !members.is_silent("a") && !members.is_outlier("a"));
    assert!(!members.has_answered_since("a", 0));
}

#[test]
fn an_answer_without_a_connection_is_recorded_and_connects_no_envoy() {
    let mut members = Members::default();
    members.answered(&node("a"), 3);
    refuse(&mut members, "a", "new");
    assert!(members.is_empty() && members.disconnect("a").is_none());
    assert!(members.has_answered_since("a", 2) && !members.has_answered_since("a", 3));
    assert_eq!(names(members.outliers().map(|(node, _)| node)), ["a"]);
    assert_eq!(members.candidate_for_trial(false, |_| false), None);
    members.connect(&node("a"), false, true, 4);
    assert!(members.is_outlier("a"), "the record was kept");
}

#[test]
fn a_follower_has_no_remote_envoys_and_keeps_what_they_answered() {
    let mut members = resumed(&["local"]);
    members.connect(&node("x/remote"), true, true, 0);
    members.answered(&node("x/remote"), 9);
    members.fell_silent(&node("x/remote"));
    refuse(&mut members, "x/remote", "new");
    assert_eq!((names(members.local_nodes()), names(members.remote_nodes())), (vec!["local"], vec!["x/remote"]));
    members.disconnect_remote();
    assert_eq!(names(members.nodes()), ["local"]);
    assert!(!members.is_remote("x/remote") && !members.is_outlier("x/remote"));
    assert!(members.is_silent("x/remote") && members.has_answered_since("x/remote", 8));
}

#[test]
fn an_envoy_without_a_configuration_is_fresh_until_it_accepts_one_or_its_time_has_passed() {
    let mut members = Members::default();
    members.connect(&node("a"), false, false, 10);
    members.connect(&node("b"), false, false, 20);
    assert!(members.is_fresh("a") && members.is_fresh("b"));
    assert_eq!(members.candidate_for_trial(true, |_| false), None);
    assert_eq!(members.candidate_for_trial(false, |_| false).as_deref(), Some("a"), "nothing is proven yet");
    assert!(!members.end_waits_for_first_answers(14, 5));
    assert!(members.end_waits_for_first_answers(15, 5) && !members.is_fresh("a"));
    assert!(members.filled("b") && !members.filled("b") && !members.is_fresh("b"));
}

#[test]
fn an_envoy_that_answers_is_no_longer_silent() {
    let mut members = resumed(&["a", "b"]);
    members.fell_silent(&node("a"));
    assert!(members.others_answer("a") && !members.others_answer("b"));
    assert!(members.answered(&node("a"), 1) && !members.answered(&node("a"), 2));
    assert!(members.others_answer("b"));
}

#[test]
fn candidates_are_the_first_that_fit_best() {
    let mut members = resumed(&["b", "c", "d"]);
    members.connect(&node("a"), true, true, 0);
    assert_eq!(members.candidate_for_new_content(|_| false).as_deref(), Some("b"), "of this replica");
    assert_eq!(members.candidate_for_trial(true, |_| false).as_deref(), Some("b"), "of this replica, if there is one");
    assert_eq!(members.candidate_for_second_witness("b", true, |_| false).as_deref(), Some("c"));
    refuse(&mut members, "b", "new");
    members.fell_silent(&node("c"));
    assert_eq!(members.candidate_for_new_content(|_| false).as_deref(), Some("d"), "b is an outlier, c is silent");
    members.fell_silent(&node("d"));
    assert_eq!(members.candidate_for_new_content(|_| false).as_deref(), Some("c"), "none answers");
    assert_eq!(
        members.candidate_for_trial(true, |_| false).as_deref(),
        Some("c"),
        "a silent Envoy before a remote one"
    );
    assert_eq!(
        members.candidate_for_second_witness("d", true, |_| false).as_deref(),
        Some("a"),
        "a remote one before a silent one"
    );
}

#[test]
fn an_outlier_comes_back_with_the_version_of_all_others() {
    let everyone = snapshot("r", "new");
    let mut members = resumed(&["a"]);
    refuse(&mut members, "a", "new");
    assert_eq!(members.outlier("a").map(Outlier::message), Some("bad"));
    assert!(members.outlier("a").is_some_and(Outlier::serves), "it keeps the old version");
    members.came_back("a", (ROUTE, &node("r")), Version::of(b"old"), Some(&everyone));
    assert!(members.is_outlier("a"), "it accepted what it had before");
    members.came_back("a", (ROUTE, &node("r")), Version::of(b"new"), Some(&everyone));
    assert!(!members.is_outlier("a"));
}

#[test]
fn a_fleet_of_outliers_waits_for_another_envoy() {
    let mut members = Members::default();
    assert!(!members.wait_for_another(true, 0, 5) && members.outliers_until_ms().is_none(), "no Envoy is connected");
    members.connect(&node("a"), false, true, 0);
    refuse(&mut members, "a", "new");
    assert!(!members.wait_for_another(true, 10, 5));
    assert_eq!(members.outliers_until_ms(), Some(15));
    assert!(!members.wait_for_another(false, 12, 5) && members.outliers_until_ms().is_none(), "they are not believed");
    assert!(!members.wait_for_another(true, 20, 5));
    members.connect(&node("b"), false, true, 21);
    assert!(!members.wait_for_another(true, 25, 5) && members.outliers_until_ms().is_none(), "b may accept it");
    members.disconnect("b");
    assert!(!members.wait_for_another(true, 30, 5));
    assert!(members.wait_for_another(true, 35, 5) && members.outliers_until_ms().is_none());
    assert_eq!(members.take_outliers().len(), 1);
    assert!(members.outliers().next().is_none() && members.is_connected("a"));
}

#[test]
fn an_envoy_has_what_it_accepted_itself() {
    let mut members = resumed(&["a"]);
    let (old, newer, newest) = (snapshot("r", "old"), snapshot("r", "newer"), snapshot("r", "newest"));
    assert_eq!(members.as_accepted("a", &newer, Some(&newest)), newer, "nothing is known of the Envoy");
    assert!(!members.has_accepted_routes("a"));
    old.of(ROUTE).values().for_each(|resource| members.accepted("a", ROUTE, resource));
    assert!(members.has_accepted_routes("a"));
    assert_eq!(members.as_accepted("a", &newer, Some(&newest)), old);
    assert_eq!(members.as_accepted("a", &Snapshot::default(), Some(&newest)), old, "it is still offered");
    assert_eq!(members.as_accepted("a", &Snapshot::default(), None), Snapshot::default(), "it was deleted");
    members.disconnect("a");
    members.connect(&node("a"), false, true, 0);
    assert_eq!(members.as_accepted("a", &newer, None), newer, "a connection may be that of another process");
}
