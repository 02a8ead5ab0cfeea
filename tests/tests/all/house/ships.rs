//! What the documented commands build: the product, without test support and without features that only tests select.
//!
//! The story `commands::the_program_contains_no_test_code` searches the built program.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::process::Command;

use regex::Regex;
use serde_json::Value;

use super::{none, top};

/// Files with commands for users.
const DOCUMENTS: [&str; 5] = ["README.md", "docs/quickstart.md", "docs/contributing.md", "justfile", ".ci/run"];
/// Commands for tests, which share compiled crates.
const TESTS: [&str; 3] = [
    "test --workspace --locked",
    "test -p holdfast-scenario-tests --test stories --locked",
    "test -p holdfast-tests --test all --locked",
];
/// What the harness of stories builds, see `scenario-tests/src/binary.rs`.
const HARNESS: &str = "build --locked --bins -p holdfast-cli -p holdfast-scenario-tests";

/// What a compilation depends on beside its package and kind of target: features, and settings of the profile.
type Selection = (Vec<String>, String);
/// One compilation: package, kind of target, and selection.
type Unit = (String, String, Selection);

/// Returns what cargo compiles for a command.
fn units(command: &str) -> BTreeSet<Unit> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    // The unit graph is the only complete answer of cargo, and is not stable yet: nothing is compiled with this variable.
    let mut command_line = Command::new(cargo);
    command_line.args(command.split(' ')).args(["--unit-graph", "-Z", "unstable-options", "--offline"]);
    let output = command_line.env("RUSTC_BOOTSTRAP", "1").current_dir(top()).output().unwrap();
    assert!(output.status.success(), "cargo {command}:\n{}", String::from_utf8_lossy(&output.stderr));
    let graph: Value = serde_json::from_slice(&output.stdout).unwrap();
    let units = graph["units"].as_array().unwrap().iter().filter(|unit| unit["mode"] == "build");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    units
        .map(|unit| {
            let features = unit["features"].as_array().into_iter().flatten().map(text).collect();
            let mut profile = unit["profile"].clone();
            profile["name"].take();
            (text(&unit["pkg_id"]), text(&unit["target"]["kind"][0]), (features, profile.to_string()))
        })
        .collect()
}

/// Returns the documented commands that build or run the program, without `cargo`.
fn documented() -> BTreeSet<String> {
    let command = Regex::new(r"cargo ((?:build|run) [^`#\\\n]*?--bin holdfast)\b").unwrap();
    let texts = DOCUMENTS.map(|file| fs::read_to_string(top().join(file)).unwrap());
    let found: Vec<Vec<String>> = texts
        .iter()
        .map(|text| command.captures_iter(text).map(|found| found[1].replacen("run", "build", 1)).collect())
        .collect();
    for (file, commands) in DOCUMENTS.iter().zip(&found) {
        assert!(!commands.is_empty(), "{file} has no command that builds the program");
    }
    // The plain command builds the default members.
    found.into_iter().flatten().chain(["build --locked".to_owned()]).collect()
}

#[test]
fn documented_commands_build_the_product_alone() {
    let test_support = Regex::new(r"/(tests|scenario-tests|fuzz)(/[a-z-]+)?#").unwrap();
    let mut offences = Vec::new();
    for command in documented() {
        for (package, kind, (features, _)) in units(&command) {
            if test_support.is_match(&package) {
                offences.push(format!("cargo {command} compiles {package} ({kind})"));
            }
            if package.starts_with("path+") && !features.is_empty() {
                offences.push(format!("cargo {command} compiles {package} with the features {features:?}"));
            }
        }
    }
    none("the product is built without test support, and has no features", offences);
}

/// If features or settings differed, each change between these commands would compile most crates again.
#[test]
fn commands_for_tests_share_what_they_compile() {
    let selected = |command: &str| {
        let mut selected: BTreeMap<(String, String), BTreeSet<Selection>> = BTreeMap::new();
        for (package, kind, selection) in units(command) {
            selected.entry((package, kind)).or_default().insert(selection);
        }
        selected
    };
    let whole = selected(TESTS[0]);
    let mut offences = Vec::new();
    for command in TESTS[1..].iter().copied().chain([HARNESS]) {
        for (unit, selected) in selected(command).into_iter().filter(|((_, kind), _)| kind != "bin") {
            let all = whole.get(&unit).cloned().unwrap_or_default();
            if !selected.is_subset(&all) {
                offences.push(format!("cargo {command}: {unit:?} with {selected:?}, `{}` with {all:?}", TESTS[0]));
            }
        }
    }
    let remedy = "add features to those of tests/support/Cargo.toml that only tests select, settings to the profile's \
                  build-override in Cargo.toml";
    none(remedy, offences);
}
