//! Lines of a report: text in a line cannot break out of it.

use std::fmt::Arguments;

use crate::printable::plain;

/// The lines so far.
#[derive(Debug, Default)]
pub(crate) struct Lines(String);

impl Lines {
    /// Adds a line.
    pub(crate) fn add(&mut self, line: Arguments<'_>) {
        self.0.push_str(&plain(&line.to_string()));
        self.0.push('\n');
    }

    /// Adds an empty line, unless the text is empty.
    pub(crate) fn part(&mut self) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
    }

    /// All lines.
    pub(crate) fn text(self) -> String {
        self.0
    }
}
