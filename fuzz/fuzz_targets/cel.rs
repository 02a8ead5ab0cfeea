//! Conditions in CEL: every check ends within its limit in steps. The target tries the bytes as a text, and a text that
//! consists of pieces of the grammar.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../grammar.rs"]
mod grammar;

fuzz_target!(|bytes: &[u8]| grammar::fuzz("cel", bytes));
