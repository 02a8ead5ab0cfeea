//! A manifest file of arbitrary bytes: it is parsed without a panic, within the limits and with the same result each
//! time, and every fault has a position in the file.

#![no_main]

use holdfast_cli::manifests::{entry, yaml};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let file = "fuzz.yaml".into();
    let contents = entry::contents(&file, bytes, true);
    let lines = bytes.split(|byte| *byte == b'\n').count();
    for entry in &contents.entries {
        let marks = entry.marks.as_ref().expect("marks are kept");
        for field in entry.faults.iter().map(|fault| fault.field.as_str()).chain(["", "spec.rules[0].matches[0]"]) {
            let (line, column) = marks.find(field);
            assert!(line >= 1 && line as usize <= lines && column >= 1, "{field} is at {line}:{column} of {lines} lines");
        }
        assert_eq!(entry.object.as_ref().is_none_or(|object| object.key == entry.key), true);
    }
    for problem in contents.problems.iter().chain(&contents.foreign) {
        assert!(problem.line as usize <= lines + 1, "{problem}");
        assert!(!problem.message.is_empty());
    }
    assert!(contents.problems.len() <= yaml::YAML_ERRORS_MAX + contents.entries.len() + yaml::YAML_DOCUMENTS_MAX);
    let again = entry::contents(&file, bytes, true);
    assert!(again.entries == contents.entries && again.problems == contents.problems);
});
