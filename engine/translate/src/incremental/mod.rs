//! Units of translation, the inputs that each unit read, and the units to translate again.
//!
//! This room knows no object kind and no API: a unit `U` and an input `I` are only compared.

pub(crate) mod guard;
mod readers;

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use self::readers::InputReaders;

/// The units to translate, and the readers of each input. The order of units is the order of their translation.
#[derive(Debug)]
pub(crate) struct Incremental<U, I> {
    readers: HashMap<I, InputReaders<U>>,
    reads: HashMap<U, Box<[I]>>,
    dirty: BTreeSet<U>,
}

impl<U, I> Default for Incremental<U, I> {
    fn default() -> Self {
        Self { readers: HashMap::new(), reads: HashMap::new(), dirty: BTreeSet::new() }
    }
}

impl<U: Clone + Hash + Ord, I: Clone + Hash + Ord> Incremental<U, I> {
    /// Schedules the translation of a unit.
    pub(crate) fn schedule(&mut self, unit: U) {
        self.dirty.insert(unit);
    }

    /// Schedules the translation of several units.
    pub(crate) fn extend(&mut self, units: impl IntoIterator<Item = U>) {
        self.dirty.extend(units);
    }

    /// Schedules the translation of all units that read an input.
    pub(crate) fn mark(&mut self, input: &I) {
        if let Some(readers) = self.readers.get(input) {
            self.dirty.extend(readers.iter().cloned());
        }
    }

    /// Takes the first scheduled unit.
    pub(crate) fn next(&mut self) -> Option<U> {
        self.dirty.pop_first()
    }

    /// Returns whether any unit is scheduled.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Returns the units that read an input.
    pub(crate) fn readers(&self, input: &I) -> impl Iterator<Item = &U> + Clone + use<'_, U, I> {
        self.readers.get(input).into_iter().flat_map(InputReaders::iter)
    }

    /// Returns the inputs that a unit read.
    pub(crate) fn reads(&self, unit: &U) -> &[I] {
        self.reads.get(unit).map(|reads| &**reads).unwrap_or_default()
    }

    /// Records the inputs that a unit read.
    pub(crate) fn record(&mut self, unit: &U, mut reads: Vec<I>) {
        reads.sort_unstable();
        reads.dedup();
        if self.reads.get(unit).is_some_and(|old| **old == *reads) {
            return;
        }
        self.forget(unit);
        for input in &reads {
            self.readers.entry(input.clone()).or_default().insert(unit.clone());
        }
        self.reads.insert(unit.clone(), reads.into());
    }

    /// Removes the recorded reads of a unit that is no longer needed.
    pub(crate) fn forget(&mut self, unit: &U) {
        for input in self.reads.remove(unit).unwrap_or_default() {
            if self.readers.get_mut(&input).is_some_and(|readers| !readers.remove(unit)) {
                self.readers.remove(&input);
            }
        }
    }

    /// Removes a unit that is no longer needed, together with its scheduled translation.
    pub(crate) fn cancel(&mut self, unit: &U) {
        self.forget(unit);
        self.dirty.remove(unit);
    }
}
