//! Deliberately costly regexes, conditions, formats and templates: checks end within their limit in steps, without a
//! panic.
//!
//! Seeded: a failure names its grammar and seed. `HOLDFAST_SEEDS=100000` tries more seeds for each grammar.

use std::panic;

use holdfast_test_support::texts::GRAMMARS;

use holdfast_test_support::matches::choices;

/// Number of seeds for each grammar, unless `HOLDFAST_SEEDS` is set.
const SEEDS: u64 = 150;

#[test]
fn checks_end_within_their_steps() {
    let seeds = std::env::var("HOLDFAST_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    for grammar in GRAMMARS {
        for seed in 1..=seeds {
            let text = grammar.text(&mut choices(seed));
            let outcome = panic::catch_unwind(|| (grammar.check)(&text));
            assert!(matches!(outcome, Ok(Ok(()))), "{}, seed {seed}: {outcome:?}\n{text:?}", grammar.name);
        }
    }
}
