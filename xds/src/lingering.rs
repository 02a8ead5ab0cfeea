//! Resources that are gone and still needed: what a client serves now may name them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names with the number of the snapshot that took each away.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    by_name: BTreeMap<Arc<str>, u64>,
    by_age: BTreeSet<(u64, Arc<str>)>,
}

impl Lingering {
    /// A resource is gone since this snapshot; one that lingers already keeps its age.
    pub(crate) fn add(&mut self, name: Arc<str>, since: u64) {
        if !self.by_name.contains_key(&name) {
            self.by_name.insert(name.clone(), since);
            self.by_age.insert((since, name));
        }
    }

    /// Forgets those that are back.
    pub(crate) fn forget(&mut self, is_back: impl Fn(&str) -> bool) {
        let by_age = &mut self.by_age;
        self.by_name.retain(|name, since| {
            let stays = !is_back(name);
            if !stays {
                by_age.remove(&(*since, name.clone()));
            }
            stays
        });
    }

    /// Takes out one that is gone since a snapshot that is no newer than `until`.
    pub(crate) fn take(&mut self, until: u64) -> Option<(Arc<str>, u64)> {
        if self.by_age.first()?.0 > until {
            return None;
        }
        let (since, name) = self.by_age.pop_first()?;
        self.by_name.remove(&name);
        Some((name, since))
    }

    /// The snapshot that took the first one away.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.by_age.first().map(|(since, _)| *since)
    }
}
