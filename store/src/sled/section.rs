//! Section: the entries of one kind in a scope, distributed over pages, so that a commit writes only the pages that
//! changed.
//!
//! Pages are shared between the state before and after a change: an equal `Arc` means no change.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::form::StoredContent;
use super::keys::Name;
use crate::record::{Digest, Scope};

/// An entry on a page.
pub(super) trait SectionEntry: Clone {
    /// Key of the entry.
    type Key: Ord + Clone;
    /// Form of the entry on the disk.
    type Form: bincode::Encode + bincode::Decode<()>;
    /// Number of the section.
    const SECTION: u8;

    /// Returns the number of the page of the entry.
    fn page(key: &Self::Key) -> u8;
    /// Returns the form for the disk, or `None` where nothing of the entry is written.
    fn form(&self, key: &Self::Key) -> Option<Self::Form>;
    /// Returns the entry of a form.
    fn from_form(form: Self::Form) -> (Self::Key, Self);
    /// Returns the payloads.
    fn contents(&self) -> Vec<&StoredContent>;
    /// Returns the name of the record of a payload.
    fn name(scope: &Scope, key: &Self::Key, content: &StoredContent) -> Name;
    /// Removes the payloads that are not wanted; returns whether anything is left.
    fn retain(&mut self, wanted: &mut dyn FnMut(&mut StoredContent) -> bool) -> bool;
}

/// Entries that are written together.
#[derive(Clone)]
pub(super) struct SectionPage<E: SectionEntry> {
    pub(super) entries: BTreeMap<E::Key, E>,
    /// The record of the page, if it was written.
    pub(super) node: Option<Digest>,
    /// Whether the page differs from its record.
    pub(super) dirty: bool,
    /// What is counted of the entries: once for a page, until it changes.
    counts: OnceLock<EntryCounts>,
}

/// Numbers of entries and payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EntryCounts {
    /// Entries with a payload that can be read.
    pub(super) usable: usize,
    /// Payloads that can be read.
    pub(super) readable: usize,
    /// Payloads that end with the process.
    pub(super) memory_only: usize,
    /// Payloads that cannot be read with the available key.
    pub(super) unreadable: usize,
}

impl EntryCounts {
    fn add(&mut self, other: EntryCounts) {
        self.usable += other.usable;
        self.readable += other.readable;
        self.memory_only += other.memory_only;
        self.unreadable += other.unreadable;
    }

    fn of(entry: &impl SectionEntry) -> Self {
        let contents = entry.contents();
        let readable = contents.iter().filter(|content| content.readable()).count();
        Self {
            usable: usize::from(readable > 0),
            readable,
            memory_only: contents.iter().filter(|content| !content.on_disk()).count(),
            unreadable: contents.len() - readable,
        }
    }
}

impl<E: SectionEntry> Default for SectionPage<E> {
    fn default() -> Self {
        Self::new(BTreeMap::new(), None, true)
    }
}

impl<E: SectionEntry> SectionPage<E> {
    pub(super) fn new(entries: BTreeMap<E::Key, E>, node: Option<Digest>, dirty: bool) -> Self {
        Self { entries, node, dirty, counts: OnceLock::new() }
    }

    /// Returns the entries for a change.
    fn edit(&mut self) -> &mut BTreeMap<E::Key, E> {
        self.counts = OnceLock::new();
        &mut self.entries
    }

    fn counts(&self) -> EntryCounts {
        *self.counts.get_or_init(|| {
            let mut counts = EntryCounts::default();
            self.entries.values().for_each(|entry| counts.add(EntryCounts::of(entry)));
            counts
        })
    }
}

/// All entries of one kind.
#[derive(Clone)]
pub(super) struct StoreSection<E: SectionEntry> {
    pub(super) pages: BTreeMap<u8, Arc<SectionPage<E>>>,
    /// The record of the table of pages, if it was written.
    pub(super) node: Option<Digest>,
    /// Whether the table differs from its record.
    pub(super) dirty: bool,
}

impl<E: SectionEntry> Default for StoreSection<E> {
    fn default() -> Self {
        Self { pages: BTreeMap::new(), node: None, dirty: false }
    }
}

impl<E: SectionEntry> StoreSection<E> {
    pub(super) fn get(&self, key: &E::Key) -> Option<&E> {
        self.pages.get(&E::page(key))?.entries.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&E::Key, &E)> {
        self.pages.values().flat_map(|page| page.entries.iter())
    }

    pub(super) fn len(&self) -> usize {
        self.pages.values().map(|page| page.entries.len()).sum()
    }

    /// Returns what is counted of all entries. The cost depends on the pages that changed since the last call.
    pub(super) fn counts(&self) -> EntryCounts {
        let mut counts = EntryCounts::default();
        self.pages.values().for_each(|page| counts.add(page.counts()));
        counts
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.values().all(|page| page.entries.is_empty())
    }

    /// Returns the entries of a page for a change.
    fn edit(&mut self, key: &E::Key) -> &mut BTreeMap<E::Key, E> {
        self.dirty = true;
        let page = Arc::make_mut(self.pages.entry(E::page(key)).or_default());
        page.dirty = true;
        page.edit()
    }

    pub(super) fn insert(&mut self, key: E::Key, entry: E) {
        self.edit(&key).insert(key, entry);
    }

    pub(super) fn remove(&mut self, key: &E::Key) {
        if self.get(key).is_some() {
            self.edit(key).remove(key);
        }
    }

    /// Removes the payloads that are not wanted, and entries without any payload.
    pub(super) fn retain(&mut self, mut wanted: impl FnMut(&E::Key, &mut StoredContent) -> bool) {
        for page in self.pages.values_mut() {
            let page = Arc::make_mut(page);
            let before: usize = page.entries.values().map(|entry| entry.contents().len()).sum();
            page.edit().retain(|key, entry| entry.retain(&mut |content| wanted(key, content)));
            let after: usize = page.entries.values().map(|entry| entry.contents().len()).sum();
            if before != after {
                page.dirty = true;
                self.dirty = true;
            }
        }
    }

    /// Marks everything as not yet written.
    pub(super) fn soil(&mut self) {
        self.dirty = true;
        for page in self.pages.values_mut() {
            let page = Arc::make_mut(page);
            page.dirty = true;
            page.node = None;
        }
        self.node = None;
    }
}

#[cfg(test)]
mod tests {
    use super::super::form::{ContentPlace, ResourceEntry};
    use super::*;

    fn entry(number: u64, place: ContentPlace) -> ResourceEntry {
        let content =
            StoredContent { digest: Digest::of(&number.to_be_bytes()), bytes: number, sensitive: false, place };
        ResourceEntry { version: [0; 16], origins: Vec::new().into(), content }
    }

    fn key(number: u64) -> (Arc<str>, Arc<str>) {
        ("type".into(), number.to_string().into())
    }

    /// Counts without pages.
    fn recounted(section: &StoreSection<ResourceEntry>) -> EntryCounts {
        let mut counts = EntryCounts::default();
        section.iter().for_each(|(_, entry)| counts.add(EntryCounts::of(entry)));
        counts
    }

    #[test]
    fn counts_follow_every_change() {
        let mut section = StoreSection::<ResourceEntry>::default();
        let places = [ContentPlace::Disk, ContentPlace::Memory(Default::default()), ContentPlace::Unreadable];
        for number in 0..900 {
            section.insert(key(number), entry(number, places[number as usize % 3].clone()));
            if number % 50 == 0 {
                assert_eq!(section.counts(), recounted(&section), "{number}");
            }
        }
        assert_eq!(section.counts(), EntryCounts { usable: 600, readable: 600, memory_only: 300, unreadable: 300 });
        let before = section.clone();
        for number in (0..900).step_by(7) {
            section.remove(&key(number));
            section.insert(key(number + 1), entry(1, ContentPlace::Disk));
            assert_eq!(section.counts(), recounted(&section), "{number}");
        }
        section.retain(|(_, name), content| {
            content.place = ContentPlace::Disk;
            name.ends_with('3')
        });
        assert_eq!(section.counts(), recounted(&section));
        assert_eq!(section.counts().unreadable, 0);
        assert_eq!(before.counts().usable, 600, "an earlier state keeps its counts");
    }
}
