//! Regexes of routes: every check ends, in bounded time, and they agree with one another.
#![no_main]

use holdfast_engine::check::re2::{Limits, capture_count, check, check_substitution, literal_prefix};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|pattern: &str| {
    let prefix = literal_prefix(pattern);
    assert!(prefix.len() <= pattern.len());
    let captures = capture_count(pattern);
    let _ = check_substitution(pattern, captures.clone().unwrap_or(0));
    match check(pattern, Limits::default()) {
        Ok(program) => {
            assert_eq!(captures, Ok(program.captures));
            // A smaller limit refuses it, and its own size does not.
            assert!(check(pattern, Limits { program_size: program.size }).is_ok());
            assert!(check(pattern, Limits { program_size: program.size - 1 }).is_err());
        }
        Err(fault) => assert!(fault.to_string().len() < 4096),
    }
});
