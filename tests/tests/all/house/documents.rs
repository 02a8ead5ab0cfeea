//! Documents against the code: named tests exist, and the reference describes every kind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use holdfast_api::apis::KINDS;
use holdfast_api::status::features;
use regex::Regex;

use super::{code, files, none, shown, top};

/// Limit in lines of the map of the code. Details are on pages of their own, to which the map leads.
const MAP_LINES_MAX: usize = 400;
/// The table of limits, and the table of the work of parsers.
const LIMITS: &str = "docs/reference/limits.md";

/// Returns the names of all functions in the sources.
fn functions() -> BTreeSet<String> {
    let definition = Regex::new(r"\bfn (\w+)").unwrap();
    let rooms = ["graph", "store", "xds", "engine", "tests", "scenario-tests"];
    let mut names = BTreeSet::new();
    for path in rooms.into_iter().flat_map(|room| files(room, &[".rs"])) {
        let text = fs::read_to_string(path).unwrap();
        names.extend(definition.captures_iter(&text).map(|found| found[1].to_owned()));
    }
    names
}

#[test]
fn the_architecture_is_a_map() {
    let lines = fs::read_to_string(top().join("docs/architecture.md")).unwrap().lines().count();
    assert!(
        lines <= MAP_LINES_MAX,
        "docs/architecture.md has {lines} lines, at most {MAP_LINES_MAX} are allowed: move details to a page in \
         docs/architecture, docs/concepts or docs/reference"
    );
}

#[test]
fn every_invariant_names_tests_that_exist() {
    let text = fs::read_to_string(top().join("docs/concepts/invariants.md")).unwrap();
    let row = Regex::new(r"^\| (\d+) \| (.*) \| (.*) \|$").unwrap();
    let name = Regex::new(r"`(?:\w+::)?([a-z][a-z0-9]*(?:_[a-z0-9]+)+)`").unwrap();
    let known = functions();
    let mut numbers = BTreeSet::new();
    let mut offences = Vec::new();
    for found in text.lines().filter_map(|line| row.captures(line)) {
        numbers.insert(found[1].to_owned());
        let named: Vec<String> = name.captures_iter(&found[3]).map(|found| found[1].to_owned()).collect();
        if named.is_empty() && !found[3].contains("Comes with") {
            offences.push(format!("invariant {} names no test", &found[1]));
        }
        offences.extend(named.iter().filter(|name| !known.contains(*name)).map(|name| format!("no test {name}")));
    }
    assert_eq!(numbers.len(), 11, "the invariants of docs/concepts/invariants.md are numbered from 1 to 11");
    none("invariants of docs/concepts/invariants.md are held by tests", offences);
}

#[test]
fn every_kind_is_in_the_reference() {
    let pages = ["docs/reference/gateway-api.md", "docs/reference/httpproxy.md", "docs/reference/kgateway.md"];
    let text: String = pages.iter().map(|page| fs::read_to_string(top().join(page)).unwrap()).collect();
    let missing = KINDS.iter().filter(|kind| !text.contains(kind.kind)).map(|kind| kind.kind.to_owned());
    none("kinds that the reference does not tell of", missing.collect());
}

#[test]
fn every_decision_has_its_parts() {
    let mut offences = Vec::new();
    for path in files("docs/decisions", &[".md"]) {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let numbered = name.len() > 5 && name.as_bytes()[..4].iter().all(u8::is_ascii_digit);
        if !numbered {
            offences.push(format!("{name} has no number"));
        }
        for part in ["\n## Context", "\n## Decision", "\n## What else was thought of"] {
            if !text.contains(part) {
                offences.push(format!("{name} lacks {:?}", part.trim()));
            }
        }
    }
    none("decision records", offences);
}

#[test]
fn every_check_of_text_is_in_the_table_of_their_work() {
    let text = fs::read_to_string(top().join(LIMITS)).unwrap();
    let section = text.split("## Work of parsers").nth(1).unwrap().split("\n## ").next().unwrap();
    let entries = fs::read_dir(top().join("engine/check/src")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let checks = names.filter(|name| !["lib.rs", "meter.rs", "tests", "time.rs"].contains(&&**name));
    let missing = checks.filter(|name| !section.contains(&format!("(../../engine/check/src/{name})")));
    none(&format!("checks of text without a row in {LIMITS}"), missing.collect());
}

/// Milliseconds of `Duration::from_secs(24 * 3600)` or of `24 hours`.
fn milliseconds(text: &str) -> Option<u64> {
    let code = Regex::new(r"^Duration::from_(secs|millis)\((.*)\)$").unwrap();
    let prose = Regex::new(r"^(\d+) (ms|s|h|hours?)$").unwrap();
    let found = code.captures(text).map(|found| (found[2].to_owned(), found[1].to_owned()));
    let found = found.or_else(|| prose.captures(text).map(|found| (found[1].to_owned(), found[2].to_owned())));
    let (count, unit) = found?;
    let count = count.split('*').map(|factor| factor.trim().parse::<u64>().ok()).product::<Option<u64>>()?;
    let factor = match unit.as_str() {
        "ms" | "millis" => 1,
        "s" | "secs" => 1000,
        _ => 3_600_000,
    };
    Some(count * factor)
}

/// Limits in the sources of the product, by name and file, with their values.
fn limits() -> BTreeMap<(String, String), String> {
    let constant = Regex::new(r"(?m)^ *(?:pub(?:\([a-z]+\))? )?const ([A-Z_]+_MAX)\s*:[^=]+=\s*([^;]+);").unwrap();
    let rooms = ["graph/src", "store/src", "xds/src", "engine"];
    let mut found = BTreeMap::new();
    for path in rooms.into_iter().flat_map(|room| files(room, &[".rs"])) {
        let name = shown(&path);
        if name.contains("/tests/") || name.contains("/benches/") || name.ends_with("tests.rs") {
            continue;
        }
        let text = code(&path);
        let constants = constant.captures_iter(&text);
        found.extend(constants.map(|limit| ((limit[1].to_owned(), name.clone()), limit[2].to_owned())));
    }
    found
}

#[test]
fn every_limit_is_in_the_table_with_its_value() {
    let text = fs::read_to_string(top().join(LIMITS)).unwrap();
    let row = Regex::new(r"(?m)^\| `([A-Z_]+)` in \[[^\]]+\]\(\.\./\.\./([^)]+)\) \| ([^|]+) \| [^|\s]").unwrap();
    let rows = row.captures_iter(&text).map(|row| ((row[1].to_owned(), row[2].to_owned()), row[3].to_owned()));
    let (rows, limits) = (rows.collect::<BTreeMap<_, _>>(), limits());
    let missing = limits.keys().filter(|limit| !rows.contains_key(*limit)).map(|limit| format!("no row: {limit:?}"));
    let mut offences: Vec<String> = missing.collect();
    for (limit, documented) in &rows {
        match limits.get(limit) {
            Some(value)
                if value == documented
                    || milliseconds(value).is_some_and(|value| milliseconds(documented) == Some(value)) => {}
            // A value that is computed from other constants is documented as a number.
            Some(value) if value.contains(char::is_alphabetic) && !value.starts_with("Duration") => {}
            found if limit.0.ends_with("_MAX") => {
                offences.push(format!("{limit:?}: {documented}, and {found:?} in the source"))
            }
            _ => {}
        }
    }
    none(&format!("limits of {LIMITS}"), offences);
}

#[test]
fn every_claimed_feature_has_passed() {
    let page = fs::read_to_string(top().join("docs/conformance.md")).unwrap();
    // The page lists extended features; the tests of core features are counted in its first table.
    let core = [
        "Gateway",
        "HTTPRoute",
        "GRPCRoute",
        "GRPCRouteNamedRouteRule",
        "TLSRoute",
        "TCPRoute",
        "UDPRoute",
        "ReferenceGrant",
    ];
    let extended = features::supported(true).into_iter().filter(|feature| !core.contains(feature));
    let has_passed = |feature: &str| {
        page.lines().any(|line| line.starts_with(&format!("| {feature} |")) && line.ends_with("| passed |"))
    };
    let missing = extended.filter(|feature| !has_passed(feature)).map(str::to_owned);
    none("claimed features that have not passed in docs/conformance.md", missing.collect());
    none(
        "failed tests in docs/conformance.md",
        page.lines().filter(|line| line.contains("failed")).map(str::to_owned).collect(),
    );
}
