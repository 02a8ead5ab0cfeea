//! Rules of the code base, as tests: forbidden code in each folder, and requirements for every file.

mod advisories;
mod arrows;
mod documents;
mod files;
mod links;
mod picture;
mod purity;
mod ratchets;
mod rooms;
mod ships;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Returns the top-level folder of the repository.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Returns every file below a folder with one of these endings, sorted. Folders with build output, fuzzing data or a
/// hidden name are skipped.
fn files(below: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![top().join(below)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                if name != "target" && name != "corpus" && name != "artifacts" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Returns the path relative to the top-level folder, for messages.
fn shown(path: &Path) -> String {
    path.strip_prefix(top()).unwrap().to_str().unwrap().to_owned()
}

/// Returns the text of a file without its tests and comments: the part before the test module, without lines that
/// begin with `//`.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let tests = Regex::new(r"#\[cfg\(test\)\]\n(#\[allow.*\]\n)?mod tests \{").unwrap();
    let text = tests.split(&text).next().unwrap().to_owned();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Fails with a list of all offences.
fn none(rule: &str, offences: Vec<String>) {
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}
