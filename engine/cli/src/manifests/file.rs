//! A file as it was last read.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use super::entry::{ManifestContents, ManifestEntry};
use super::files::{ManifestFile, Signature};
use super::held::DelayedDeletion;
use super::read::ManifestReading;

/// A file as it was last read.
#[derive(Debug)]
pub(super) struct File {
    pub(super) name: Arc<str>,
    pub(super) signature: Signature,
    pub(super) hash: blake3::Hash,
    pub(super) contents: ManifestContents,
    /// The readable objects, if an earlier run read the file and it has not parsed since. They are not used, except for
    /// those without a stored version: which edits belong together is unknown.
    pub(super) set_aside: Option<Vec<Arc<ManifestEntry>>>,
    /// The objects missing since an in-place change of the file.
    pub(super) held: Option<DelayedDeletion>,
    pub(super) restless_since: Option<Instant>,
    /// Whether the definitions of all objects include those of the file as they are now.
    pub(super) is_indexed: bool,
}

impl File {
    /// A file with unknown content.
    pub(super) fn empty(found: &ManifestFile) -> Self {
        Self {
            name: found.name.clone(),
            signature: found.signature.clone(),
            hash: blake3::hash(b""),
            contents: ManifestContents::default(),
            set_aside: None,
            held: None,
            restless_since: None,
            is_indexed: false,
        }
    }

    /// The objects in the file, in the version to use.
    pub(super) fn own(&self) -> impl Iterator<Item = &Arc<ManifestEntry>> {
        let used = |entry| self.held.as_ref().map_or(entry, |held| held.instead(entry));
        self.contents.entries.iter().map(used)
    }

    /// The objects that are missing from the file and are kept for a time.
    pub(super) fn missing(&self) -> impl Iterator<Item = &Arc<ManifestEntry>> {
        self.held.iter().flat_map(DelayedDeletion::missing)
    }

    /// All objects of the file that are used.
    pub(super) fn everything(&self) -> impl Iterator<Item = &Arc<ManifestEntry>> {
        self.own().chain(self.missing())
    }

    /// Returns whether the file has to be visited again without a change of it: it may still be written, or objects are
    /// missing from it.
    pub(super) fn is_unsettled(&self) -> bool {
        self.restless_since.is_some() || self.held.is_some()
    }

    /// Returns whether each reading has to report or to consider the file.
    pub(super) fn is_notable(&self) -> bool {
        let ManifestContents { problems, foreign, unserved, .. } = &self.contents;
        let is_reported = !problems.is_empty() || !foreign.is_empty() || !unserved.is_empty();
        self.is_unsettled() || !self.contents.certain() || is_reported
    }

    /// The state of an unchanged file: missing objects are dropped when their hold is over.
    pub(super) fn settle(self, reading: &mut ManifestReading) -> Self {
        let Some(held) = &self.held else { return self };
        if held.is_over() && self.contents.certain() {
            return Self { held: None, is_indexed: false, ..self };
        }
        reading.waiting = true;
        self
    }
}

/// Merges the previous and the new objects of a file. A file that does not parse keeps its previous objects; a file
/// that never parsed has its readable objects. If only a document has lost its name, the previous objects are kept with
/// the new ones, since the document is probably one of them.
pub(super) fn merge(last: Vec<Arc<ManifestEntry>>, new: ManifestContents) -> ManifestContents {
    if last.is_empty() || new.certain() {
        return new;
    }
    if !new.complete {
        return ManifestContents { entries: last, ..new };
    }
    let named: HashSet<_> = new.entries.iter().map(|entry| entry.key.clone()).collect();
    let missing = last.into_iter().filter(|entry| !named.contains(&entry.key));
    ManifestContents { entries: new.entries.iter().cloned().chain(missing).collect(), ..new }
}

/// Returns the state of a file that is still being written: it is read again soon.
pub(super) fn restless(found: &ManifestFile, last: Option<File>, reading: &mut ManifestReading) -> File {
    reading.restless = true;
    File { restless_since: Some(Instant::now()), ..last.unwrap_or_else(|| File::empty(found)) }
}
