//! Input in standalone mode: folders of YAML and JSON files, read completely, watched, and converted to events.
//!
//! An error in a file or document affects only that file or document: it is reported with file and line, and the other
//! files and documents are used. A file that does not parse keeps its previous objects. This module decides nothing
//! about what is served.
//!
//! The path of a file: [`files`] finds it, [`yaml`] parses it, [`entry`] makes objects of its documents, `definitions`
//! selects the one that is used of several, [`Manifests`] compares the objects of changed files with those of the last
//! reading, and [`watch`] repeats this after each change.

pub mod definitions;
pub mod entry;
mod file;
pub mod files;
pub mod held;
pub mod incarnations;
pub mod load;
pub mod marks;
pub mod positions;
pub mod read;
mod scalar;
pub mod tree;
pub mod watch;
pub mod yaml;

use std::fmt;
use std::sync::Arc;

pub use entry::{ManifestDocument, ManifestEntry, UnservedObject};
pub use files::{Readings, Root, roots};
pub use incarnations::Incarnations;
pub use read::{ManifestReading, Manifests};
use serde::Serialize;

/// Returns the line, from 1, of a field in the text of one document: of the innermost node on its path that exists.
pub(crate) fn field_line(text: &str, field: &str) -> Option<u32> {
    let (documents, _) = yaml::parse(text);
    documents.first().map(|document| document.marks.find(field).0)
}

/// A problem of a file, or of a document that cannot be identified as an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The file or folder, as the user named it.
    pub file: Arc<str>,
    /// The line, from 1; 0 for the file as a whole.
    pub line: u32,
    /// The column, from 1; 0 for the line as a whole.
    pub column: u32,
    /// A sentence.
    pub message: String,
}

impl Problem {
    /// `file:line:column`, as far as they are known.
    pub fn place(&self) -> Arc<str> {
        let numbers = [self.line, self.column].into_iter().take_while(|number| *number > 0);
        numbers.fold(self.file.to_string(), |place, number| format!("{place}:{number}")).into()
    }

    /// A problem of a file as a whole.
    pub fn of_file(file: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self { file: file.into(), line: 0, column: 0, message: message.into() }
    }
}

/// `file:line:column: message`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        for number in [self.line, self.column] {
            if number == 0 {
                break;
            }
            write!(f, ":{number}")?;
        }
        write!(f, ": {}", self.message)
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod known_changes_tests;
#[cfg(test)]
mod restart_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
