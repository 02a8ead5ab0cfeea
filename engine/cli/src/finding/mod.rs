//! Findings of health in words, one fact a line: the same words in `holdfast status`, in `holdfast diff` and on the page.
//!
//! All text from outside is escaped here, so that it can control neither a terminal nor the direction of text.

mod effects;
mod heading;
mod lines;

pub(crate) use effects::described;
pub(crate) use heading::heading;
pub(crate) use lines::{FindingLine, finding_lines, when};

use holdfast_fallback::view::Identity;

use crate::printable;

/// How much of long lists is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownLimits {
    /// Maximum number of lines of one sort.
    pub(crate) lines: usize,
    /// Maximum number of hosts, paths and names on one line.
    pub(crate) names: usize,
    /// Where all of them are; empty if the reader knows.
    pub(crate) elsewhere: &'static str,
}

impl ShownLimits {
    /// Returns the clause about what is not shown, after a number.
    fn rest(self, between: &str, after: &str) -> String {
        match self.elsewhere {
            "" => String::new(),
            elsewhere => format!("{between}{elsewhere}{after}"),
        }
    }
}

/// Returns items separated by commas, with the number of omitted ones.
pub(crate) fn listed<'a>(items: impl Iterator<Item = &'a str>, limits: ShownLimits) -> String {
    let all: Vec<String> = items.map(plain).collect();
    let shown = all.iter().take(limits.names).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(limits.names) {
        0 => shown,
        more => format!("{shown} and {more} more{}", limits.rest(" (", ")")),
    }
}

/// Returns kind, namespace and name of an object.
pub(crate) fn name(object: &Identity) -> String {
    plain(&format!("{} {}", object.kind, object.key().namespaced_name()))
}

/// Escapes external text, so that it cannot control a terminal.
pub(crate) fn plain(text: &str) -> String {
    printable::plain(text).into_owned()
}
