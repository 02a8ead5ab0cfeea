//! The rules of the house, as tests: what must not be in which room, and what every file owes its reader.

mod advisories;
mod arrows;
mod documents;
mod files;
mod links;
mod purity;
mod ratchets;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// The top of the repository.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every file below a folder with one of these endings, in order; what is built and what is hidden is passed over.
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

/// The path from the top, as messages show it.
fn shown(path: &Path) -> String {
    path.strip_prefix(top()).unwrap().to_str().unwrap().to_owned()
}

/// The text of a file without its tests and comments: what is before `#[cfg(test)]`, without lines that begin with `//`.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let tests = Regex::new(r"#\[cfg\(test\)\]\n(#\[allow.*\]\n)?mod tests \{").unwrap();
    let text = tests.split(&text).next().unwrap().to_owned();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Fails with all offences at once.
fn none(rule: &str, offences: Vec<String>) {
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}
