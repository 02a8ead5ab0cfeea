//! Requirements for every source file, and the entries of the top-level folder.

use std::fs;

use super::{files, none, shown, top};

/// Limit in lines of a source file.
const LINES_MAX: usize = 800;
/// Folders with sources.
const ROOMS: [&str; 6] = ["graph", "store", "xds", "engine", "tests", "scenario-tests"];
/// Allowed entries of the top-level folder.
const TOP: [&str; 21] = [
    "Cargo.toml",
    "Cargo.lock",
    "engine",
    "store",
    "graph",
    "xds",
    "charts",
    "docs",
    "tests",
    "scenario-tests",
    "README.md",
    "LICENSE",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "clippy.toml",
    "deny.toml",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "justfile",
    "fuzz",
    "target",
];

#[test]
fn every_source_file_has_module_docs() {
    let sources = ROOMS.into_iter().flat_map(|room| files(room, &[".rs"]));
    let silent = sources.filter(|path| !fs::read_to_string(path).unwrap().starts_with("//! "));
    none("a source file begins with //!", silent.map(|path| shown(&path)).collect());
}

#[test]
fn source_files_are_small() {
    let sources = ROOMS.into_iter().flat_map(|room| files(room, &[".rs"]));
    let large = sources.filter_map(|path| {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        (lines > LINES_MAX).then(|| format!("{} has {lines} lines", shown(&path)))
    });
    none("a source file has at most 800 lines", large.collect());
}

#[test]
fn the_top_level_is_as_it_was_agreed() {
    let names = fs::read_dir(top()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let unexpected = names.filter(|name| !name.starts_with('.') && !TOP.contains(&name.as_str()));
    none("the top level", unexpected.collect());
}

#[test]
fn main_only_starts() {
    let main = fs::read_to_string(top().join("engine/cli/src/main.rs")).unwrap();
    assert!(main.lines().count() < 30, "main.rs parses and starts, nothing more");
}
