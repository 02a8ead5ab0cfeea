//! Conditions in CEL and format strings: every check ends, in bounded space, and what is taken stays in its limits.
#![no_main]

use holdfast_engine::check::{cel, format};
use holdfast_engine::features::rbac::{Conditions, STEPS_MAX};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = format::check(text);
    match cel::check(text) {
        Ok(condition) => {
            assert!(condition.steps() <= text.len());
            let taken = Conditions::read(true, [text, text]);
            assert_eq!(taken.is_ok(), condition.steps() * 2 <= STEPS_MAX);
        }
        Err(fault) => assert!(fault.to_string().len() < 4096),
    }
});
