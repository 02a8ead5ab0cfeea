//! Unified differences of two texts.

use std::collections::BTreeMap;

use serde::Serialize;
use similar::{ChangeTag, TextDiff};

/// Number of unchanged lines around a change.
const CONTEXT: usize = 3;
/// Maximum number of lines of one difference; further lines are counted.
pub(crate) const DIFF_LINES_MAX: usize = 2000;

/// A line of a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DiffLine {
    /// `-`: only served. `+`: only desired. ` `: both. `@`: the positions of the lines that follow.
    pub(crate) sign: char,
    /// The line.
    pub(crate) text: String,
    /// What is wrong with the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<String>,
}

/// Returns the differences between the served and the desired text; empty if they are equal. `faults` are by line of the
/// desired text, from 0.
pub(super) fn compare(served: &str, desired: &str, faults: &BTreeMap<usize, String>) -> Vec<DiffLine> {
    let difference = TextDiff::from_lines(served, desired);
    let mut lines = Vec::new();
    for hunk in difference.unified_diff().context_radius(CONTEXT).iter_hunks() {
        lines.push(DiffLine { sign: '@', text: hunk.header().to_string(), fault: None });
        for change in hunk.iter_changes() {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            let fault = change.new_index().and_then(|line| faults.get(&line)).cloned();
            lines.push(DiffLine { sign, text: change.value().trim_end_matches('\n').to_owned(), fault });
        }
    }
    let more = lines.len().saturating_sub(DIFF_LINES_MAX);
    if more > 0 {
        lines.truncate(DIFF_LINES_MAX);
        lines.push(DiffLine { sign: '@', text: format!("@@ {more} more lines @@"), fault: None });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_sides_have_their_signs_and_faults() {
        let faults = BTreeMap::from([(1, "bad".to_owned())]);
        let lines = compare("a\nb\nc\n", "a\nB\nc\n", &faults);
        let shown: Vec<String> = lines.iter().map(|line| format!("{}{}", line.sign, line.text)).collect();
        assert_eq!(shown, ["@@@ -1,3 +1,3 @@", " a", "-b", "+B", " c"]);
        let marked: Vec<&DiffLine> = lines.iter().filter(|line| line.fault.is_some()).collect();
        assert!(matches!(marked.as_slice(), [line] if line.text == "B"), "{marked:?}");
        assert_eq!(compare("a\n", "a\n", &faults), []);
    }

    #[test]
    fn long_differences_are_cut_with_a_count() {
        let long = "x\n".repeat(DIFF_LINES_MAX + 10);
        let lines = compare("", &long, &BTreeMap::new());
        assert_eq!(lines.len(), DIFF_LINES_MAX + 1);
        assert_eq!(lines.last().map(|line| &*line.text), Some("@@ 11 more lines @@"));
    }
}
