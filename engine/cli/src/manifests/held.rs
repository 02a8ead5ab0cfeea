//! Delayed deletion of objects that are missing from a file that was changed in place.
//!
//! A program that writes a file from its beginning, and pauses, leaves a text that parses and lacks objects. An edit
//! that deletes objects looks equal, except that the file stays unchanged afterwards.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::Problem;
use super::entry::{ManifestContents, ManifestEntry};
use super::files::Signature;

/// How long a file that was changed in place must be unchanged before its missing objects are deleted.
pub const SHORTENED_HELD: Duration = Duration::from_secs(5);

/// The former objects of a file that was changed in place and now lacks some of them.
#[derive(Debug)]
pub struct DelayedDeletion {
    /// The missing objects.
    missing: Vec<Arc<ManifestEntry>>,
    /// The previous version of the file's last object; the text of the new version may be truncated.
    last: Option<Arc<ManifestEntry>>,
    since: Instant,
}

impl DelayedDeletion {
    /// Holds the objects of `before` that `new` lacks, if the file changed recently.
    pub fn of(before: Vec<Arc<ManifestEntry>>, new: &ManifestContents, signature: &Signature) -> Option<Self> {
        let is_old = |modified: SystemTime| modified.elapsed().is_ok_and(|age| age >= SHORTENED_HELD);
        if !new.certain() || signature.modified.is_none_or(is_old) {
            return None;
        }
        let named: HashSet<_> = new.entries.iter().map(|entry| &entry.key).collect();
        let (there, missing): (Vec<_>, Vec<_>) = before.into_iter().partition(|entry| named.contains(&entry.key));
        let last = new.entries.last().and_then(|last| there.into_iter().find(|entry| entry.key == last.key));
        (!missing.is_empty()).then(|| Self { missing, last, since: Instant::now() })
    }

    /// Returns whether the file has been unchanged for long enough.
    pub fn is_over(&self) -> bool {
        self.since.elapsed() >= SHORTENED_HELD
    }

    /// The missing objects.
    pub fn missing(&self) -> &[Arc<ManifestEntry>] {
        &self.missing
    }

    /// The version to use of an object that the file has now.
    pub fn instead<'a>(&'a self, entry: &'a Arc<ManifestEntry>) -> &'a Arc<ManifestEntry> {
        self.last.as_ref().filter(|last| last.key == entry.key).unwrap_or(entry)
    }

    /// The problem to report meanwhile.
    pub fn problem(&self, file: &Arc<str>) -> Problem {
        let message = format!(
            "the file was changed in place and lacks {} object(s) that it contained; they stay in use until the file \
             has not changed for {} s, and are deleted then. To replace a file atomically, write another file and \
             rename it",
            self.missing.len(),
            SHORTENED_HELD.as_secs()
        );
        Problem::of_file(file.clone(), message)
    }

    /// Simulates that the hold began long ago.
    #[cfg(test)]
    pub(super) fn rest(&mut self) {
        self.since = self.since.checked_sub(SHORTENED_HELD).unwrap_or(self.since);
    }
}
