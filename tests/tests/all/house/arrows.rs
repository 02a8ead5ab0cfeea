//! Which crate may use which, and where versions stand.

use std::fs;

use super::{none, top};

/// The arrows of `docs/architecture.md`: a crate, and those of ours that it may use.
const ARROWS: [(&str, &[&str]); 4] =
    [("graph", &[]), ("store", &["graph"]), ("xds", &["graph"]), ("engine", &["graph", "store", "xds"])];

fn manifest(member: &str) -> String {
    fs::read_to_string(top().join(member).join("Cargo.toml")).unwrap()
}

#[test]
fn crates_use_only_what_the_arrows_allow() {
    let mut offences = Vec::new();
    for (member, allowed) in ARROWS {
        let manifest = manifest(member);
        // Tests may use what they like.
        let manifest = manifest.split("[dev-dependencies]").next().unwrap();
        for (other, _) in ARROWS {
            let used =
                manifest.contains(&format!("holdfast-{other}.")) || manifest.contains(&format!("holdfast-{other} "));
            if used && !allowed.contains(&other) {
                offences.push(format!("{member} uses {other}"));
            }
        }
    }
    none("arrows between crates", offences);
}

#[test]
fn versions_stand_at_the_root_only() {
    let mut offences = Vec::new();
    for member in ["graph", "store", "xds", "engine", "tests", "scenario-tests"] {
        let manifest = manifest(member);
        let lines = manifest.lines().skip_while(|line| !line.contains("dependencies]"));
        let versions = lines.filter(|line| {
            let value = line.split_once('=').map_or("", |(_, value)| value.trim());
            value.starts_with('"') && !line.starts_with("name") && !line.starts_with("path")
                || value.contains("version =")
        });
        offences.extend(versions.map(|line| format!("{member}: {line}")));
    }
    none("members take versions from the workspace", offences);
}
