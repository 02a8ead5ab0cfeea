//! Dependencies between crates, and between the rooms of the fallback; the place of dependency versions.

use std::collections::BTreeMap;
use std::fs;

use regex::Regex;

use super::{code, files, none, shown, top};

/// The arrows of `docs/architecture.md`: each crate with its folder, and the crates of this repository that it may use.
/// A crate of the engine may use the crates of the engine before it.
const ARROWS: [(&str, &str, &[&str]); 12] = [
    ("graph", "graph", &[]),
    ("store", "store", &["graph"]),
    ("xds", "xds", &["graph"]),
    ("check", "engine/check", &[]),
    ("api", "engine/api", &["graph", "store", "xds", "check"]),
    ("envoy", "engine/envoy", &["graph", "xds", "check", "api"]),
    ("translate", "engine/translate", &["graph", "xds", "check", "api", "envoy"]),
    ("fallback", "engine/fallback", &["graph", "store", "xds", "check", "api", "envoy", "translate"]),
    ("engine", "engine", &["graph", "store", "xds", "check", "api", "envoy", "translate", "fallback"]),
    ("probe", "engine/probe", &["xds", "envoy", "fallback"]),
    ("kubernetes", "engine/kubernetes", &["graph", "store", "xds", "api", "envoy", "translate", "engine"]),
    (
        "cli",
        "engine/cli",
        &["graph", "store", "xds", "check", "api", "envoy", "translate", "fallback", "engine", "probe", "kubernetes"],
    ),
];

/// The rooms of `engine/fallback`, in order: a room uses only rooms before it.
const ROOMS_OF_FALLBACK: [&str; 13] = [
    "context",
    "members",
    "evidence",
    "eligibility",
    "plan",
    "checker",
    "rollout",
    "attribution",
    "revocation",
    "report",
    "persistence",
    "replication",
    "scope",
];

fn manifest(folder: &str) -> String {
    fs::read_to_string(top().join(folder).join("Cargo.toml")).unwrap()
}

#[test]
fn crates_use_only_what_the_arrows_allow() {
    let mut offences = Vec::new();
    for (member, folder, allowed) in ARROWS {
        let manifest = manifest(folder);
        // Tests may use any crate.
        let manifest = manifest.split("[dev-dependencies]").next().unwrap();
        offences.extend(manifest.contains("holdfast-golden").then(|| format!("{member} uses golden outside of tests")));
        for (other, ..) in ARROWS {
            let used =
                manifest.contains(&format!("holdfast-{other}.")) || manifest.contains(&format!("holdfast-{other} "));
            if used && !allowed.contains(&other) {
                offences.push(format!("{member} uses {other}"));
            }
        }
    }
    none("arrows between crates", offences);
}

/// Tests may use any room. Every room may name `FallbackScope`, which is the state of all rooms, to add methods to it;
/// [`calls_within_a_scope_lead_to_earlier_rooms`] checks the calls of these methods, which are not visible in paths.
#[test]
fn rooms_of_fallback_use_only_earlier_rooms() {
    const SOURCES: &str = "engine/fallback/src";
    let path = Regex::new(r"\b(crate|super(?:::super)*)::(\w+|\{)(?:::(\w+))?").unwrap();
    let place = |name: &str| ROOMS_OF_FALLBACK.iter().position(|room| *room == name);
    let mut offences = Vec::new();
    for file in files(SOURCES, &[".rs"]) {
        let inside = shown(&file)[SOURCES.len() + 1..].to_owned();
        let is_test = inside.starts_with("testing/") || inside.contains("/tests");
        let room = inside.split('/').next().and_then(place);
        let (Some(room), false) = (room, is_test) else {
            offences.extend((!is_test && inside != "lib.rs").then(|| format!("{inside} is in no room")));
            continue;
        };
        let depth = inside.matches('/').count() + usize::from(!inside.ends_with("/mod.rs"));
        for found in path.captures_iter(&code(&file)) {
            let is_from_root = &found[1] == "crate" || found[1].matches("super").count() >= depth;
            let is_state = &found[2] == "scope" && found.get(3).is_some_and(|name| name.as_str() == "FallbackScope");
            let is_earlier = place(&found[2]).is_some_and(|used| used <= room);
            offences.extend((is_from_root && !is_state && !is_earlier).then(|| format!("{inside}: {}", &found[0])));
        }
    }
    none("a room of the fallback uses only rooms before it", offences);
}

/// Returns the methods of `FallbackScope`, each with its room.
fn methods_of_a_scope(sources: &BTreeMap<String, String>) -> BTreeMap<String, usize> {
    let (block, method) =
        (Regex::new(r"(?ms)^impl FallbackScope \{$(.*?)^\}").unwrap(), Regex::new(r"fn (\w+)").unwrap());
    let mut methods = BTreeMap::new();
    for (inside, source) in sources {
        let Some(room) = room_of_fallback(inside) else { continue };
        let names = block.captures_iter(source).flat_map(|found| method.captures_iter(found.get(1).unwrap().as_str()));
        methods.extend(names.map(|name| (name[1].to_owned(), room)));
    }
    methods
}

fn room_of_fallback(inside: &str) -> Option<usize> {
    let name = inside.split('/').next();
    ROOMS_OF_FALLBACK.iter().position(|room| Some(*room) == name)
}

/// The scope is a reducer: what a room leaves to later rooms, it returns.
#[test]
fn calls_within_a_scope_lead_to_earlier_rooms() {
    const SOURCES: &str = "engine/fallback/src";
    let all = files(SOURCES, &[".rs"]).into_iter();
    let sources = all.map(|file| (shown(&file)[SOURCES.len() + 1..].to_owned(), code(&file)));
    let sources: BTreeMap<String, String> = sources.filter(|(inside, _)| !inside.contains("/tests")).collect();
    let methods = methods_of_a_scope(&sources);
    assert!(methods.len() > 50, "{} methods", methods.len());
    let (call, owner) = (Regex::new(r"\b(self|scope)\.(\w+)\(").unwrap(), "FallbackScope");
    let mut offences = Vec::new();
    for (inside, source) in &sources {
        let Some(room) = room_of_fallback(inside).filter(|_| source.contains(owner)) else { continue };
        let later = call.captures_iter(source).filter(|found| methods.get(&found[2]).is_some_and(|at| *at > room));
        offences.extend(later.map(|found| format!("{inside}: {}", &found[0])));
    }
    none("a room of the fallback calls methods of a scope from earlier rooms only", offences);
}

/// A step puts what it needs into the translator and ends; the next round translates.
#[test]
fn the_fallback_calls_the_translation_in_one_place() {
    let call = Regex::new(r"\btranslator\s*\.translate\(").unwrap();
    let all = files("engine/fallback/src", &[".rs"]).into_iter().filter(|file| !shown(file).contains("/tests"));
    let calls = all.flat_map(|file| vec![shown(&file); call.find_iter(&code(&file)).count()]);
    assert_eq!(calls.collect::<Vec<_>>(), ["engine/fallback/src/scope/mod.rs"]);
}

#[test]
fn dependency_versions_are_declared_at_the_root_only() {
    let mut offences = Vec::new();
    let folders = ARROWS.map(|(_, folder, _)| folder).into_iter().chain([
        "tests",
        "tests/dist",
        "tests/golden-driver",
        "tests/objects",
        "tests/support",
        "scenario-tests",
    ]);
    for member in folders {
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

/// Returns the lines of each package of a lock file, by its first two lines: name and version.
fn locked(file: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(top().join(file)).unwrap();
    let packages = text.split("[[package]]\n").skip(1);
    packages.map(|lines| (lines.lines().take(2).collect::<Vec<_>>().join(" "), lines.to_owned())).collect()
}

/// The fuzz targets are a separate workspace: its lock file could differ from the lock file of the product.
#[test]
fn fuzz_targets_are_built_with_the_versions_of_the_product() {
    let (product, fuzz) = (locked("Cargo.lock"), locked("fuzz/Cargo.lock"));
    let only_fuzz = ["arbitrary", "holdfast-fuzz", "jobserver", "libfuzzer-sys"];
    let is_only_fuzz = |package: &str| only_fuzz.iter().any(|name| package.contains(&format!("\"{name}\"")));
    let others = fuzz.keys().filter(|package| !product.contains_key(*package) && !is_only_fuzz(package));
    let mut offences: Vec<String> = others.cloned().collect();
    for (member, folder, _) in ARROWS {
        let manifest = manifest(folder);
        let dependencies = manifest.split("[dependencies]\n").nth(1).unwrap();
        let names = dependencies.lines().take_while(|line| !line.starts_with('['));
        let names = names.filter_map(|line| line.split(['.', ' ', '=']).next().filter(|name| !name.is_empty()));
        let (_, entry) = fuzz.iter().find(|(package, _)| package.contains(&format!("\"holdfast-{member}\""))).unwrap();
        let missing = names.filter(|name| !entry.contains(&format!(" \"{name}")));
        offences.extend(missing.map(|name| format!("holdfast-{member} without {name}")));
    }
    none("fuzz/Cargo.lock differs: copy Cargo.lock there, and run `cargo +nightly metadata` in fuzz", offences);
}
