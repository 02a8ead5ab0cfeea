//! The golden cases, broken at random places: no panic; incremental translation equals translation from scratch;
//! deleted objects leave nothing behind; every deviation from the written objects is reported.
//!
//! Seeded: a failure names its case and seed. `HOLDFAST_SEEDS=1000` tries more seeds for each case.

use holdfast_api::settings::Settings;
use holdfast_engine::engine::{Engine, Event};
use holdfast_graph::ObjectKey;
use holdfast_test_support::matches::choices;
use holdfast_test_support::present::Present;
use holdfast_test_support::{self as testing, mutate};
use serde_json::Value;

use crate::cases;

/// Default number of seeds for each case.
const SEEDS: u64 = 6;
/// Number of random events after the events of the case.
const EVENTS: usize = 10;

#[test]
fn broken_cases() {
    let seeds = std::env::var("HOLDFAST_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let cases = cases::all();
    for (name, documents) in &cases {
        (1..=seeds).for_each(|seed| break_case(name, documents, seed));
    }
    assert!(cases.len() > 50, "only {} cases were found", cases.len());
}

fn break_case(name: &str, documents: &[Value], seed: u64) {
    let mut choose = choices(seed);
    let settings = if choose(2) == 0 { Settings::standalone() } else { Settings::default() };
    let mut engine = Engine::new(settings.clone());
    let mut present = Present::default();
    let mut happen = |engine: &mut Engine, event: Event| {
        present.note(&event);
        engine.handle(vec![event]);
    };
    for document in documents {
        testing::event(document.clone()).into_iter().for_each(|event| happen(&mut engine, event));
    }
    for _ in 0..EVENTS {
        let event = if choose(5) == 0 {
            let keys: Vec<ObjectKey> = engine.objects().sorted().iter().map(|object| object.key.clone()).collect();
            keys.get(choose(keys.len())).cloned().map(Event::Deleted)
        } else {
            testing::event(mutate::mutated(documents, &mut choose))
        };
        event.into_iter().for_each(|event| happen(&mut engine, event));
    }
    let mut scratch = Engine::new(settings);
    scratch.handle(present.clone().events());
    let at = format!("{name}, seed {seed}");
    assert_eq!(testing::served(&engine), testing::served(&scratch), "{at}");
    assert_eq!(engine.faults(), scratch.faults(), "{at}");
    assert_eq!(engine.statuses(), scratch.statuses(), "{at}");
    assert_eq!(engine.replacements(), scratch.replacements(), "{at}");
    assert_eq!(engine.graph().edges(), scratch.graph().edges(), "{at}");
    assert_eq!(testing::unreported(&engine), Vec::<String>::new(), "{at}");
    for key in present.keys() {
        engine.handle(vec![Event::Deleted(key)]);
    }
    assert!(engine.gateways().is_empty() && engine.faults().is_empty(), "{at}: something is left");
    assert_eq!(engine.graph().edge_count(), 0, "{at}: edges are left");
}
