//! Tests of the quarantine through its public interface: what it refuses, what it forgets, and which objects wait.

#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};

use holdfast_graph::quarantine::{FIELD_BYTES_MAX, MESSAGE_BYTES_MAX, VERDICTS_MAX, WITNESSES_MAX};
use holdfast_graph::{Content, Detected, Node, ObjectKey, Quarantine, Verdict};
use proptest::prelude::*;

fn content(number: u32) -> Content {
    Content(u128::from(number).to_be_bytes())
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("g", "Route", "ns", name)
}

fn verdict(name: &str, detected: Detected, witnesses: &[u32]) -> Verdict {
    Verdict {
        node: Node::section(key(name), "rules[0]"),
        generation: 3,
        detected,
        field: "spec.rules[0]".into(),
        message: "missing ]".into(),
        since: 1_000,
        witnesses: witnesses.iter().copied().map(content).collect(),
    }
}

#[test]
fn what_is_convicted_is_refused_until_it_is_acquitted() {
    let mut quarantine = Quarantine::new();
    let verdict = verdict("a", Detected::Nack, &[]);
    assert!(quarantine.convict(content(1), verdict.clone()));
    assert!(!quarantine.convict(content(1), verdict.clone()));
    assert_eq!(quarantine.refuses(&content(1), |_| false), Some(&verdict));
    assert_eq!(quarantine.refuses(&content(2), |_| true), None);
    assert_eq!(quarantine.of(&key("a")).collect::<Vec<_>>(), [(content(1), &verdict)]);
    assert_eq!(quarantine.acquit(&content(1)), Some(verdict));
    assert_eq!((quarantine.len(), quarantine.of(&key("a")).count(), quarantine.iter().count()), (0, 0, 0));
    assert_eq!(quarantine.acquit(&content(1)), None);
}

#[test]
fn with_witnesses_it_is_refused_only_where_all_of_them_are_present() {
    let mut quarantine = Quarantine::new();
    quarantine.convict(content(1), verdict("a", Detected::Probe, &[2, 3]));
    let refused = |present: &[u32]| {
        quarantine.refuses(&content(1), |one| present.iter().any(|number| content(*number) == *one)).is_some()
    };
    assert_eq!([refused(&[]), refused(&[2]), refused(&[3]), refused(&[2, 3, 4])], [false, false, false, true]);
    assert!(quarantine.get(&content(1)).is_some());
}

#[test]
fn what_is_known_only_gets_firmer() {
    let mut quarantine = Quarantine::new();
    let mut convict = |detected, witnesses: &[u32], since| {
        let verdict = Verdict { since, ..verdict("a", detected, witnesses) };
        quarantine.convict(content(1), verdict);
        let kept = quarantine.get(&content(1)).unwrap();
        (kept.detected, kept.witnesses.len(), kept.since)
    };
    assert_eq!(convict(Detected::Suspected, &[2], 1_000), (Detected::Suspected, 1, 1_000));
    assert_eq!(convict(Detected::Nack, &[2, 3], 1_001), (Detected::Nack, 2, 1_000));
    assert_eq!(convict(Detected::Suspected, &[], 1_002), (Detected::Nack, 2, 1_000));
    assert_eq!(convict(Detected::Probe, &[], 1_003), (Detected::Probe, 0, 1_000));
    assert_eq!(convict(Detected::Nack, &[2], 1_004), (Detected::Probe, 0, 1_000));
}

#[test]
fn the_oldest_verdict_goes_first() {
    let mut quarantine = Quarantine::new();
    let count = u32::try_from(VERDICTS_MAX).unwrap();
    for number in (0..=count).rev() {
        quarantine.convict(content(number), verdict(&number.to_string(), Detected::Nack, &[]));
    }
    assert_eq!(quarantine.len(), VERDICTS_MAX);
    assert!(quarantine.get(&content(count)).is_none() && quarantine.get(&content(count - 1)).is_some());
    assert_eq!(quarantine.of(&key(&count.to_string())).count(), 0);
    assert_eq!(quarantine.iter().next().map(|(content, _)| content), Some(content(count - 1)));
}

#[test]
fn what_comes_from_outside_is_cut_down() {
    let mut quarantine = Quarantine::new();
    let long = Verdict {
        message: "ä".repeat(MESSAGE_BYTES_MAX).into(),
        field: format!("x{}", "ä".repeat(FIELD_BYTES_MAX)).into(),
        witnesses: (0..100).map(content).collect(),
        ..verdict("a", Detected::Nack, &[])
    };
    quarantine.convict(content(1), long);
    let kept = quarantine.get(&content(1)).unwrap();
    assert_eq!((kept.message.len(), kept.field.len()), (MESSAGE_BYTES_MAX, FIELD_BYTES_MAX - 1));
    assert_eq!(kept.witnesses.len(), WITNESSES_MAX);
}

#[test]
fn repeated_refusals_make_an_object_wait_and_convictions_alone_do_not() {
    let mut quarantine = Quarantine::new();
    for index in 0..5 {
        quarantine.convict(content(index), verdict("a", Detected::Nack, &[]));
    }
    quarantine.note_refusal(&key("a"), 5_000);
    assert_eq!(quarantine.wait_until(&key("a"), 5_000), None);
    quarantine.note_refusal(&key("a"), 5_500);
    quarantine.note_refusal(&key("a"), 6_250);
    assert_eq!(quarantine.wait_until(&key("a"), 6_300), Some(7_250));
    assert_eq!((quarantine.wait_until(&key("a"), 7_250), quarantine.wait_until(&key("b"), 6_300)), (None, None));
}

#[test]
fn verdicts_come_back_from_json() {
    let written = verdict("a", Detected::Suspected, &[7]);
    let json = serde_json::to_string(&written).unwrap();
    assert!(json.contains("\"suspected\"") && json.contains(&content(7).to_string()));
    assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), written);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// After any operations, the indexes by content, by age and by object are consistent.
    #[test]
    fn all_views_are_consistent(deeds in prop::collection::vec((0..8_u32, 0..3_u8, prop::option::of(0..3_usize)), 0..40)) {
        let mut quarantine = Quarantine::new();
        let mut model: BTreeMap<Content, ObjectKey> = BTreeMap::new();
        for (number, object, witnesses) in deeds {
            if object == 2 {
                prop_assert_eq!(quarantine.acquit(&content(number)).is_some(), model.remove(&content(number)).is_some());
                continue;
            }
            let name = if object == 0 { "a" } else { "b" };
            let witnesses: Vec<u32> = (0..u32::try_from(witnesses.unwrap_or_default()).unwrap()).collect();
            let new = quarantine.convict(content(number), verdict(name, Detected::Nack, &witnesses));
            prop_assert_eq!(new, !model.contains_key(&content(number)));
            model.insert(content(number), quarantine.get(&content(number)).unwrap().node.key.clone());
        }
        let seen: BTreeMap<_, _> = quarantine.iter().map(|(content, verdict)| (content, verdict.node.key.clone())).collect();
        prop_assert_eq!(&seen, &model);
        prop_assert_eq!(quarantine.len(), model.len());
        for name in ["a", "b"] {
            let own: BTreeSet<Content> = quarantine.of(&key(name)).map(|(content, _)| content).collect();
            let expected = model.iter().filter(|(_, object)| **object == key(name)).map(|(content, _)| *content);
            prop_assert_eq!(own, expected.collect::<BTreeSet<_>>());
        }
        let mut restored = Quarantine::new();
        for (content, verdict) in quarantine.iter() {
            restored.convict(content, verdict.clone());
        }
        prop_assert_eq!(restored.iter().collect::<Vec<_>>(), quarantine.iter().collect::<Vec<_>>());
    }
}
