//! Entries of one sort in a scope, spread over pages, so that a commit writes the pages that changed and no others.
//!
//! Pages are shared between the state before and after a change: what is the same `Arc` did not change.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::form::Content;
use super::keys::Name;
use crate::record::{Digest, Scope};

/// What stands on pages.
pub(super) trait Entry: Clone {
    /// What it is known by.
    type Key: Ord + Clone;
    /// How it stands on the disk.
    type Form: bincode::Encode + bincode::Decode<()>;
    /// The number of its section.
    const SECTION: u8;

    /// On which page it stands.
    fn page(key: &Self::Key) -> u8;
    /// Its form for the disk; none where nothing of it goes there.
    fn form(&self, key: &Self::Key) -> Option<Self::Form>;
    /// From its form.
    fn from_form(form: Self::Form) -> (Self::Key, Self);
    /// Its payloads.
    fn contents(&self) -> Vec<&Content>;
    /// The name of one of its payloads' record.
    fn name(scope: &Scope, key: &Self::Key, content: &Content) -> Name;
    /// Leaves out the payloads that are not wanted; is anything left?
    fn retain(&mut self, wanted: &mut dyn FnMut(&mut Content) -> bool) -> bool;
}

/// Entries that are written together.
#[derive(Clone)]
pub(super) struct Page<E: Entry> {
    pub(super) entries: BTreeMap<E::Key, E>,
    /// The record it is written as, if any.
    pub(super) node: Option<Digest>,
    /// Is it different from its record?
    pub(super) dirty: bool,
}

impl<E: Entry> Default for Page<E> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), node: None, dirty: true }
    }
}

/// All entries of a sort.
#[derive(Clone)]
pub(super) struct Section<E: Entry> {
    pub(super) pages: BTreeMap<u8, Arc<Page<E>>>,
    /// The record of its table of pages, if any.
    pub(super) node: Option<Digest>,
    /// Is it different from its record?
    pub(super) dirty: bool,
}

impl<E: Entry> Default for Section<E> {
    fn default() -> Self {
        Self { pages: BTreeMap::new(), node: None, dirty: false }
    }
}

impl<E: Entry> Section<E> {
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

    /// The entries of a page, to be changed.
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

    /// Leaves out the payloads that are not wanted, and entries without any.
    pub(super) fn retain(&mut self, mut wanted: impl FnMut(&E::Key, &mut Content) -> bool) {
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

    /// As if nothing of it were written.
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
