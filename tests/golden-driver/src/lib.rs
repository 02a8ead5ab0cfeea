//! Golden files: expected texts of tests, compared, or written with `HOLDFAST_GOLDEN=write`.
//!
//! Tests of every crate use it as a dev-dependency. It must not know what a text is about, and no product code may use
//! it.

#![allow(clippy::panic, reason = "a failed comparison fails the test")]

pub mod diff;

use std::path::Path;
use std::{env, fs, io, thread};

/// Fails where the text of a golden file differs from the given text, or writes the file.
pub fn check(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    if let Some(lines) = difference(path, text) {
        panic!("{} differs:\n{lines}{}", path.display(), advice());
    }
}

/// Fails where the text between two lines of a file differs from the given text, or writes the text between them.
pub fn check_block(path: impl AsRef<Path>, lines: (&str, &str), text: &str) {
    let file = read(path.as_ref());
    let replaced = replace_block(&file, lines, text);
    check(&path, &replaced.unwrap_or_else(|| panic!("{} has no lines {lines:?}", path.as_ref().display())));
}

/// Compares the text of a golden file with the given text, and returns the lines that differ; or writes the file. A
/// missing file has no lines.
pub fn difference(path: impl AsRef<Path>, text: &str) -> Option<String> {
    let path = path.as_ref();
    let recorded = read(path);
    if recorded == text {
        return None;
    }
    if env::var("HOLDFAST_GOLDEN").is_ok_and(|mode| mode == "write") {
        fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return None;
    }
    Some(diff::lines(&recorded, text))
}

/// Returns the command that writes the golden files of the running test.
pub fn advice() -> String {
    let package = env::var("CARGO_PKG_NAME").map_or(String::new(), |package| format!(" -p {package}"));
    let test = thread::current().name().map_or(String::new(), |test| format!(" {test}"));
    format!("Where the new text is correct: HOLDFAST_GOLDEN=write cargo test{package}{test}")
}

fn read(path: &Path) -> String {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
    }
}

/// Returns a file with the given text between two lines, or `None` if it does not have both lines.
fn replace_block(file: &str, (first, last): (&str, &str), text: &str) -> Option<String> {
    let (before, rest) = file.split_once(&format!("{first}\n"))?;
    let (_, after) = rest.split_once(&format!("{last}\n"))?;
    Some(format!("{before}{first}\n{text}{last}\n{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_lines_are_shown_with_their_context() {
        let recorded = "1\n2\n3\n4\n5\n6\n7\n";
        let shown = diff::lines(recorded, "1\n2\n3\n4\n5\n6\nseven\n");
        assert_eq!(shown, "  …\n  3\n  4\n  5\n  6\n- 7\n+ seven\n");
    }

    #[test]
    fn differing_ends_of_lines_are_shown() {
        assert_eq!(diff::lines("1\n2", "1\n2\n"), "  1\n- 2\n\\ no newline at the end\n+ 2\n");
    }

    #[test]
    fn a_missing_file_differs_from_every_text() {
        let missing = Path::new(env!("CARGO_MANIFEST_DIR")).join("missing");
        assert_eq!(read(&missing), "");
    }

    #[test]
    fn a_block_is_replaced_between_its_lines() {
        let lines = ("<!-- a -->", "<!-- b -->");
        let file = "1\n<!-- a -->\nold\n<!-- b -->\n2\n";
        assert_eq!(replace_block(file, lines, "new\n").as_deref(), Some("1\n<!-- a -->\nnew\n<!-- b -->\n2\n"));
        assert_eq!(replace_block("<!-- b -->\n<!-- a -->\n", lines, "new\n"), None);
    }
}
