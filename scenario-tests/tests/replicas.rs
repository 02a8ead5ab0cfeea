//! Several replicas: only the leader decides, all serve the same configuration, which survives the loss of any replica.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use holdfast_api::settings::{Fallback, Settings};
use holdfast_scenario_tests::story::dice::Dice;
use holdfast_scenario_tests::story::language::Refuse;
use holdfast_scenario_tests::story::replicas::{StoryReplicas, taken_by};

const BUILD: &str = "1.36.0";
const BASICS: &str =
    "{basics: \"yes\"}\n---\n{route: shop/cart, path: /cart, to: a}\n---\n{route: shop/pay, path: /pay, to: a}";

fn settings() -> Settings {
    let fallback = Fallback { isolate: true, use_last_valid: true, ..Fallback::default() };
    Settings { fallback, ..Settings::standalone() }
}

fn replicas(envoys: &[&[(&str, &str)]]) -> StoryReplicas {
    let mut replicas = StoryReplicas::new(&settings(), envoys).unwrap();
    replicas.apply(BASICS).unwrap();
    replicas
}

fn bad() -> Refuse {
    serde_json::from_value(serde_json::json!({"route": ["BAD"]})).unwrap()
}

fn edit(mark: &str, to: &str) -> String {
    format!("{{route: shop/cart, path: /cart, to: {to}, add: {{x-mark: {mark}}}}}")
}

fn same(replicas: &StoryReplicas, one: (usize, &str), other: (usize, &str)) {
    let of = |(number, node): (usize, &str)| taken_by(&replicas.all[number].stage, node);
    assert!(!of(one).is_empty());
    assert_eq!(of(one), of(other));
}

#[test]
fn a_follower_serves_the_same_and_outlives_the_leader() {
    let mut replicas = replicas(&[&[("e1", BUILD), ("e2", BUILD)], &[("f1", BUILD)]]);
    same(&replicas, (0, "e1"), (1, "f1"));
    replicas.refuse(&bad());
    replicas.apply(&edit("BAD", "b")).unwrap();
    // Two Envoys convict, both connected to the leader.
    assert_eq!(replicas.nacks(0), 2);
    assert_eq!(replicas.nacks(1), 0, "what is bad is not tried again where another follows");
    for (number, node) in [(0, "e1"), (0, "e2"), (1, "f1")] {
        assert_eq!(replicas.response(number, node, "shop.test/cart").unwrap(), "shop/a", "{node}");
    }
    same(&replicas, (0, "e1"), (1, "f1"));
    let before = taken_by(&replicas.all[1].stage, "f1");
    let pushes = replicas.all[1].stage.counts.pushes.clone();
    (replicas.all[0].is_up, replicas.all[1].leads) = (false, true);
    replicas.settle().unwrap();
    assert_eq!(taken_by(&replicas.all[1].stage, "f1"), before, "the same bytes");
    assert_eq!(replicas.all[1].stage.counts.pushes, pushes, "and nothing is sent for it");
    assert_eq!(replicas.nacks(1), 0, "no second round");
    replicas.apply(&edit("good", "b")).unwrap();
    assert_eq!(replicas.response(1, "f1", "shop.test/cart").unwrap(), "shop/b", "it leads: what is mended is served");
}

#[test]
fn an_empty_replica_starts_from_the_shared_store() {
    let mut replicas = replicas(&[&[("e1", BUILD)], &[("f1", BUILD)]]);
    replicas.refuse(&bad());
    replicas.apply(&edit("BAD", "b")).unwrap();
    replicas.join(&[("g1", BUILD)], &format!("{BASICS}\n---\n{}", edit("BAD", "b"))).unwrap();
    replicas.refuse(&bad());
    same(&replicas, (0, "e1"), (2, "g1"));
    assert_eq!(replicas.response(2, "g1", "shop.test/cart").unwrap(), "shop/a", "the plan is known to it");
    assert_eq!(replicas.nacks(2), 0);
}

#[test]
fn what_envoys_of_a_follower_refuse_is_judged_by_the_leader() {
    // All Envoys of the second build are connected to the follower; the leader has none of this build.
    for leaders in [&[("e1", BUILD)][..], &[]] {
        let mut replicas = replicas(&[leaders, &[("f1", "1.40.0"), ("f2", "1.40.0")]]);
        assert_eq!(replicas.response(1, "f1", "shop.test/cart").unwrap(), "shop/a", "it is served at all");
        let refuse = serde_json::json!({"route": ["BAD"], "builds": ["1.40.0"]});
        replicas.refuse(&serde_json::from_value(refuse).unwrap());
        replicas.apply(&format!("{}\n---\n{{route: shop/new, path: /new, to: b}}", edit("BAD", "b"))).unwrap();
        for node in ["f1", "f2"] {
            assert_eq!(replicas.response(1, node, "shop.test/cart").unwrap(), "shop/a", "{node}");
        }
        if let [(node, _)] = leaders {
            assert_eq!(replicas.response(0, node, "shop.test/cart").unwrap(), "shop/b", "its build takes it");
        }
        replicas.apply(&edit("good", "b")).unwrap();
        for (node, path) in [("f1", "cart"), ("f2", "cart"), ("f1", "new")] {
            let answer = replicas.response(1, node, &format!("shop.test/{path}")).unwrap();
            assert_eq!(answer, "shop/b", "{node} {path}: it is mended");
        }
    }
}

#[test]
fn a_new_route_is_tried_without_its_new_policy_where_only_a_follower_has_an_envoy() {
    let mut replicas = replicas(&[&[], &[("f1", BUILD)]]);
    replicas.refuse(&serde_json::from_value(serde_json::json!({"anywhere": ["BAD"]})).unwrap());
    let policy = |mark: &str| format!("{{policy: shop/guard, on: HTTPRoute/new, mark: {mark}}}");
    let text = format!("{{route: shop/new, path: /new, to: b}}\n---\n{}", policy("BAD"));
    replicas.apply(&text).unwrap();
    assert_eq!(replicas.response(1, "f1", "shop.test/new").unwrap(), "404");
    let named = broken(&replicas);
    assert!(matches!(&named[..], [only] if only.contains("TrafficPolicy")), "only the policy: {named:?}");
    replicas.apply(&policy("good")).unwrap();
    assert_eq!(replicas.response(1, "f1", "shop.test/new").unwrap(), "shop/b", "it is mended");
}

#[test]
fn without_a_leader_the_plan_stays_endpoints_go_on_and_what_must_close_closes() {
    let mut replicas = replicas(&[&[("e1", BUILD)], &[("f1", BUILD)]]);
    replicas.all[0].is_up = false;
    let text = format!("{}\n---\n{{endpoints: shop/a, addresses: [10.9.9.9]}}", edit("new", "b"));
    replicas.apply(&text).unwrap();
    assert_eq!(replicas.response(1, "f1", "shop.test/cart").unwrap(), "shop/a", "nobody has proven what is new");
    let envoy = &replicas.all[1].stage.envoys["f1"];
    let has_it = envoy.taken.values().any(|resource| String::from_utf8_lossy(&resource.body).contains("10.9.9.9"));
    assert!(has_it, "endpoints go on");
    replicas.delete(&["HTTPRoute/shop/pay"]).unwrap();
    let gone = replicas.response(1, "f1", "shop.test/pay").unwrap();
    assert!(gone != "shop/a", "what is deleted is not served: {gone}");
    assert_eq!(replicas.response(1, "f1", "shop.test/cart").unwrap(), "shop/a");
    replicas.all[1].leads = true;
    replicas.settle().unwrap();
    assert_eq!(replicas.response(1, "f1", "shop.test/cart").unwrap(), "shop/b");
}

#[test]
fn two_leaders_for_a_while_come_to_the_same() {
    let mut replicas = replicas(&[&[("e1", BUILD), ("e2", BUILD)], &[("f1", BUILD), ("f2", BUILD)]]);
    replicas.refuse(&bad());
    // The first replica cannot reach the bucket, and has lost the Lease without knowing.
    (replicas.all[0].reaches, replicas.all[1].leads) = (false, true);
    replicas.apply(&edit("BAD", "b")).unwrap();
    assert!(replicas.nacks(0) <= 2 && replicas.nacks(1) <= 2, "each by itself");
    replicas.all[0].reaches = true;
    replicas.apply("{route: shop/other, path: /other, to: b}").unwrap();
    replicas.all[0].leads = false;
    replicas.settle().unwrap();
    same(&replicas, (0, "e1"), (1, "f1"));
    assert_eq!(replicas.response(0, "e1", "shop.test/cart").unwrap(), "shop/a");
    assert_eq!(replicas.response(0, "e1", "shop.test/other").unwrap(), "shop/b");
    assert!(replicas.nacks(0) <= 2 && replicas.nacks(1) <= 2);
}

#[test]
fn replicas_converge_under_any_leader_with_at_most_two_refusals() {
    for seed in 0..20 {
        let mut dice = Dice::new(seed);
        let fleets: [&[(&str, &str)]; 3] = [&[("e1", BUILD)], &[("f1", BUILD)], &[("g1", BUILD)]];
        let mut replicas = replicas(&fleets);
        replicas.refuse(&bad());
        let mut contents = 0;
        for _ in 0..8 {
            match dice.below(4) {
                0 => {
                    let leader = dice.index(3);
                    for (number, replica) in replicas.all.iter_mut().enumerate() {
                        replica.leads = number == leader;
                    }
                    replicas.settle().unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
                }
                _ => {
                    contents += 1;
                    let mark = if dice.below(2) == 0 { format!("BAD{contents}") } else { format!("good{contents}") };
                    replicas.apply(&edit(&mark, "b")).unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
                }
            }
        }
        same(&replicas, (0, "e1"), (1, "f1"));
        same(&replicas, (0, "e1"), (2, "g1"));
        let nacks: usize = (0..3).map(|number| replicas.nacks(number)).sum();
        // Two Envoys convict, of different replicas.
        assert!(nacks <= 2 * contents, "seed {seed}: {nacks} refusals of {contents} contents");
        replicas.forgive();
        replicas.apply(&edit("the last", "b")).unwrap();
        for (number, node) in [(0, "e1"), (1, "f1"), (2, "g1")] {
            assert_eq!(replicas.response(number, node, "shop.test/cart").unwrap(), "shop/b", "seed {seed}: {node}");
        }
    }
}

/// The routes that are edited and deleted quickly.
const QUICK: [&str; 3] = ["cart", "pay", "new"];

/// Creates, edits or deletes a route at one replica, in the order in which all replicas receive it.
fn see(replicas: &mut StoryReplicas, number: usize, (route, content): (usize, Option<u64>), rounds: u64) {
    let stage = &mut replicas.all[number].stage;
    let name = QUICK[route];
    match content {
        Some(content) => {
            let text = format!("{{route: shop/{name}, path: /{name}, to: b, add: {{x-mark: good{content}}}}}");
            stage.apply_early(&text, rounds).unwrap();
        }
        None => {
            let is_there = stage.objects.keys().any(|key| &*key.kind == "HTTPRoute" && &*key.name == name);
            let names: Vec<String> = is_there.then(|| format!("HTTPRoute/shop/{name}")).into_iter().collect();
            let events = stage.take_away(&names).unwrap();
            stage.happen_early(events, rounds).unwrap();
        }
    }
}

fn is_programmed(replicas: &StoryReplicas, number: usize) -> bool {
    let engine = replicas.all[number].stage.engine.as_ref().unwrap();
    engine.gateways().iter().all(|gateway| gateway.programmed)
}

/// Begins or ends a turn of one replica. The leader reports what the answers of other replicas change only if their number
/// changed.
fn turn(replicas: &mut StoryReplicas, number: usize, begins: bool) {
    let state = |replicas: &StoryReplicas| {
        (is_programmed(replicas, 0), replicas.all[0].stage.engine.as_ref().unwrap().answers())
    };
    let before = state(replicas);
    if begins { replicas.begin_turn(number) } else { replicas.end_turn(number) }.unwrap();
    let after = state(replicas);
    assert!(before.0 == after.0 || before.1 != after.1, "{before:?} {after:?}");
}

/// All Envoys of the Gateway are connected to the follower, and edits come faster than the replicas exchange their state.
#[test]
fn quick_edits_are_programmed_where_only_a_follower_has_envoys() {
    for seed in 90..100 {
        let mut dice = Dice::new(seed);
        let mut replicas = replicas(&[&[], &[("f1", BUILD)]]);
        for replica in replicas.all.iter_mut().filter(|_| seed % 2 == 0) {
            replica.stage.probe = Some(BUILD.into());
            replica.stage.happen(vec![holdfast_engine::engine::Event::Probe(Some(BUILD.into()))]).unwrap();
        }
        replicas.settle().unwrap();
        assert!(is_programmed(&replicas, 0) && is_programmed(&replicas, 1), "before the edits");
        let mut edits = Vec::new();
        let mut seen = [0, 0];
        for _ in 0..72 {
            let number = dice.index(2);
            match dice.below(6) {
                0 => edits.push((dice.index(3), dice.one_in(2).then(|| dice.below(2)))),
                1 | 2 if seen[number] < edits.len() => {
                    see(&mut replicas, number, edits[seen[number]], dice.below(4));
                    seen[number] += 1;
                }
                3 => turn(&mut replicas, number, false),
                _ => turn(&mut replicas, number, true),
            }
        }
        for (number, seen) in seen.into_iter().enumerate() {
            edits.iter().skip(seen).for_each(|edit| see(&mut replicas, number, *edit, dice.below(4)));
        }
        replicas.settle().unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
        for number in [0, 1] {
            assert!(is_programmed(&replicas, number), "seed {seed}: replica {number} after {edits:?}");
        }
    }
}

#[test]
fn two_envoys_of_a_follower_try_suspects_one_after_the_other() {
    for (bad, kind) in [
        ("{route: shop/new, path: /new, to: b, add: {x-mark: BAD}}", "HTTPRoute:shop/new"),
        (
            "{route: shop/new, path: /new, to: b}\n---\n{policy: shop/guard, on: HTTPRoute/new, mark: BAD}",
            "TrafficPolicy:shop/guard",
        ),
    ] {
        let mut replicas = replicas(&[&[], &[("f1", BUILD), ("f2", BUILD)]]);
        replicas.refuse(&serde_json::from_value(serde_json::json!({"anywhere": ["BAD"]})).unwrap());
        replicas.apply(&format!("{bad}\n---\n{{route: shop/other, path: /other, to: b}}")).unwrap();
        for node in ["f1", "f2"] {
            assert_eq!(replicas.response(1, node, "shop.test/new").unwrap(), "404", "{kind}");
            assert_eq!(replicas.response(1, node, "shop.test/other").unwrap(), "shop/b", "{kind}: the other is served");
        }
        assert!(matches!(&broken(&replicas)[..], [only] if only.ends_with(kind)), "{:?}", broken(&replicas));
    }
}

/// The objects at fault, as the leader knows them.
fn broken(replicas: &StoryReplicas) -> Vec<String> {
    let report = replicas.all[0].stage.engine.as_ref().unwrap().fallback();
    report.broken_objects.iter().map(|broken| broken.object.key().to_string()).collect()
}
