//! Conditions in CEL: every check ends within its steps. Both the bytes as they are and a text made of the pieces of the
//! grammar are tried.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../grammar.rs"]
mod grammar;

fuzz_target!(|bytes: &[u8]| grammar::fuzz("cel", bytes));
