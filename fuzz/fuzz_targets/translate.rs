//! Decoding and translation of broken objects: no panic; incremental translation equals translation from scratch; every
//! deviation from the written objects is reported.
#![no_main]

use holdfast_engine::engine::{Engine, Event};
use holdfast_api::settings::Settings;
use holdfast_test_support::present::Present;
use holdfast_test_support::{self as testing, mutate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut bytes = data.iter().copied();
    let mut left = data.len();
    let mut choose = |below: usize| {
        left = left.saturating_sub(1);
        bytes.next().map_or(0, |byte| usize::from(byte) % below.max(1))
    };
    let documents = testing::documents(testing::SAMPLE);
    let mut engine = testing::engine(testing::SAMPLE, Settings::standalone());
    let mut present = Present::default();
    testing::events(testing::SAMPLE).iter().for_each(|event| present.note(event));
    for _ in 0..data.len().min(200) / 8 {
        let event = if choose(6) == 0 {
            let keys = present.keys();
            keys.get(choose(keys.len())).cloned().map(Event::Deleted)
        } else {
            testing::event(mutate::mutated(&documents, &mut choose))
        };
        let Some(event) = event else { continue };
        present.note(&event);
        engine.handle(vec![event]);
    }
    let mut scratch = Engine::new(Settings::standalone());
    scratch.handle(present.events());
    assert_eq!(testing::served(&engine), testing::served(&scratch));
    assert_eq!(engine.faults(), scratch.faults());
    assert_eq!(engine.statuses(), scratch.statuses());
    assert_eq!(testing::unreported(&engine), Vec::<String>::new());
});
