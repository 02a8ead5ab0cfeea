//! Section: the entries of one kind in a scope, distributed over pages, so that a commit writes only the pages that
//! changed.
//!
//! Pages are shared between the state before and after a change: an equal `Arc` means no change.

use std::collections::BTreeMap;
use std::sync::Arc;

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
}

impl<E: SectionEntry> Default for SectionPage<E> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), node: None, dirty: true }
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

    pub(super) fn is_empty(&self) -> bool {
        self.pages.values().all(|page| page.entries.is_empty())
    }

    /// Returns the entries of a page for a change.
    fn edit(&mut self, key: &E::Key) -> &mut BTreeMap<E::Key, E> {
        self.dirty = true;
        let page = Arc::make_mut(self.pages.entry(E::page(key)).or_default());
        page.dirty = true;
        &mut page.entries
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
            page.entries.retain(|key, entry| entry.retain(&mut |content| wanted(key, content)));
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
