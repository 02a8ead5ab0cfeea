//! Standalone mode's input: folders of YAML and JSON, read whole, watched, and turned into events.
//!
//! Whatever is wrong with a file or a document stays there: it is told with file and line, and the other files and
//! documents go on. A file that does not parse keeps what it last held. This room decides nothing about what is served.
//!
//! The way of a file: [`files`] finds it, [`yaml`] parses it, [`entry`] makes objects of its documents, [`Manifests`]
//! compares all objects with those of the last reading, and [`watch`] does it again when something changed.

pub mod entry;
pub mod files;
pub mod held;
pub mod incarnations;
pub mod marks;
pub mod read;
mod scalar;
pub mod watch;
pub mod yaml;

pub use entry::Entry;
pub use files::Root;
pub use incarnations::Incarnations;
pub use read::{Manifests, Reading};

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// Something that is wrong with a file, or with a document that cannot be told to be an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The file or folder, as the user named it.
    pub file: Arc<str>,
    /// Line, from 1; 0 where the file as a whole is meant.
    pub line: u32,
    /// Column, from 1; 0 where the line as a whole is meant.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
