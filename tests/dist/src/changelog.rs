//! The changelog: the notes of `docs/changes/unreleased`, in their order, as one document.
//!
//! Links are relative to the top folder of the repository.

use std::fs;

use anyhow::{Context, Result};

use crate::source::Source;

const NOTES: &str = "docs/changes/unreleased";

/// Returns the document.
pub(crate) fn assemble(source: &Source) -> Result<String> {
    let folder = source.root.join(NOTES);
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| name.ends_with(".md"));
    names.sort();
    let mut notes = Vec::new();
    for name in &names {
        let note = source.read(&format!("{NOTES}/{name}"))?;
        notes.push(String::from_utf8(note).with_context(|| format!("{NOTES}/{name} is not UTF-8"))?);
    }
    Ok(document(source.version, &notes))
}

/// Returns the notes with a title, each as a section, and then all others as one.
fn document(version: &str, notes: &[String]) -> String {
    let (titled, others): (Vec<&String>, Vec<&String>) = notes.iter().partition(|note| note.starts_with('#'));
    let mut text = format!("# Changes in Holdfast {version}\n");
    for note in titled {
        text.push('\n');
        text.push_str(&nested(note));
    }
    if !others.is_empty() {
        text.push_str("\n## Other changes\n\n");
    }
    text.extend(others.into_iter().map(|note| nested(note)));
    text
}

/// Returns a note as a section: headings one level lower, links relative to the top folder.
fn nested(note: &str) -> String {
    let mut text = String::new();
    for line in note.trim().lines() {
        if line.starts_with('#') {
            text.push('#');
        }
        // The notes are three folders below the top folder, and name only documents and charts.
        text.push_str(
            &line.replace("](../../../", "](").replace("](../../", "](docs/").replace("](../", "](docs/changes/"),
        );
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::document;

    #[test]
    fn a_note_becomes_a_section_with_links_from_the_top() {
        let titled = "# One\n\n- [a](../../operating/a.md), [b](../../../charts/b.md), [c](https://c.example.com)\n";
        let notes = ["- No title.\n".to_owned(), titled.to_owned()];
        let section = "## One\n\n- [a](docs/operating/a.md), [b](charts/b.md), [c](https://c.example.com)\n";
        let expected = format!("# Changes in Holdfast 1.2.3\n\n{section}\n## Other changes\n\n- No title.\n");
        assert_eq!(document("1.2.3", &notes), expected);
    }
}
