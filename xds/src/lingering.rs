//! Resources that are gone from the snapshot and still needed: the current configuration of a client may name them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names with the number of the snapshot that removed each.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    by_name: BTreeMap<Arc<str>, u64>,
    by_age: BTreeSet<(u64, Arc<str>)>,
}

impl Lingering {
    /// Adds a resource that is gone since this snapshot; a resource that already lingers keeps its age.
    pub(crate) fn add(&mut self, name: Arc<str>, since: u64) {
        if !self.by_name.contains_key(&name) {
            self.by_name.insert(name.clone(), since);
            self.by_age.insert((since, name));
        }
    }

    /// Removes the resources that are back.
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

    /// Removes and returns a resource that is gone since a snapshot no newer than `until`.
    pub(crate) fn take(&mut self, until: u64) -> Option<(Arc<str>, u64)> {
        if self.by_age.first()?.0 > until {
            return None;
        }
        let (since, name) = self.by_age.pop_first()?;
        self.by_name.remove(&name);
        Some((name, since))
    }

    /// Returns the snapshot that removed the oldest resource.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.by_age.first().map(|(since, _)| *since)
    }
}
