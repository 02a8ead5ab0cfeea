//! Accepted advisories: the table of SECURITY.md, `deny.toml` and the lock file agree.

use std::collections::BTreeSet;
use std::fs;

use regex::Regex;

use super::{none, top};

#[test]
fn accepted_advisories_are_those_of_crates_in_use() {
    let read = |file: &str| fs::read_to_string(top().join(file)).unwrap();
    let (security, deny, lock) = (read("SECURITY.md"), read("deny.toml"), read("Cargo.lock"));
    let row = Regex::new(r"(?m)^\| (RUSTSEC-\d{4}-\d{4}) \(\w+\) \| `(\w+)`").unwrap();
    let ignored = Regex::new(r#"id = "(RUSTSEC-\d{4}-\d{4})""#).unwrap();
    let accepted: BTreeSet<_> = row.captures_iter(&security).map(|found| found[1].to_owned()).collect();
    let denied: BTreeSet<_> = ignored.captures_iter(&deny).map(|found| found[1].to_owned()).collect();
    assert!(!accepted.is_empty());
    assert_eq!(accepted, denied, "SECURITY.md and deny.toml accept the same advisories");
    let unused = row.captures_iter(&security).map(|found| found[2].to_owned());
    let unused = unused.filter(|name| !lock.contains(&format!("name = \"{name}\"\n")));
    none("crates with an accepted advisory that are no dependency any more", unused.collect());
}
