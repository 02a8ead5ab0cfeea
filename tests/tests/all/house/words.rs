//! Words that must not be committed.

use std::fs;

use regex::Regex;

use super::{files, none, shown};

const ROOMS: [&str; 8] = ["graph", "store", "xds", "engine", "tests", "scenario-tests", "docs", "fuzz"];

fn offences(endings: &[&str], forbidden: &Regex) -> Vec<String> {
    let all = ROOMS.into_iter().flat_map(|room| files(room, endings));
    let others = all.filter(|path| !shown(path).contains("tests/all/house/"));
    others
        .flat_map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let hits = text.lines().enumerate().filter(|(_, line)| forbidden.is_match(line));
            hits.map(|(line, _)| format!("{}:{}", shown(&path), line + 1)).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn nothing_is_left_for_later() {
    let forbidden = Regex::new(&["TO", "DO|FIX", "ME|todo!", r"\(|unimplemented!\("].concat()).unwrap();
    none("left unfinished", offences(&[".rs"], &forbidden));
}

#[test]
fn no_package_registry_is_named() {
    let hosts =
        ["crates\\.io/", "static\\.crates", "pypi\\.org", "python[h]osted", "registry\\.npmjs", "proxy\\.golang\\.org"];
    let forbidden = Regex::new(&hosts.join("|")).unwrap();
    none("names the host of a package registry", offences(&[".rs", ".md", ".toml", ".yaml", ".sh"], &forbidden));
}

#[test]
fn tests_are_not_passed_over_without_a_reason() {
    let forbidden = Regex::new(r"#\[ignore\]").unwrap();
    none("ignored without a reason", offences(&[".rs"], &forbidden));
}
