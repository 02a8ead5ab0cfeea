//! Ledger of faults: since when objects are at fault, across edits, retries and restarts.

use std::collections::BTreeMap;

use holdfast_check::time::Moment;
use holdfast_graph::ObjectKey;
use serde::{Deserialize, Serialize};

/// Maximum number of dated objects; faults of further objects are dated from when they are shown.
pub const LEDGER_ENTRIES_MAX: usize = 50_000;
/// Time after the end of a fault in which a fault of the same object, in the same generation, is the same fault
/// (seconds). A refused version is tried again after up to 30 seconds, and is not at fault meanwhile.
pub const SAME_FAULT_SECONDS: i64 = 60;

/// The dates of faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    entries: BTreeMap<String, LedgerEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LedgerEntry {
    uid: String,
    generation: Option<i64>,
    since: i64,
    /// When the entry was last present; unset while it is present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
}

/// A fault or problem that is present now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// The identifier: an object with the part of it at fault, or an input.
    pub id: String,
    /// The object's UID; empty where there is none.
    pub uid: String,
    /// The object's generation.
    pub generation: Option<i64>,
    /// Since when, where another source knows.
    pub since: Option<Moment>,
}

impl Ledger {
    /// Returns since when an entry is present.
    pub fn since(&self, id: &str) -> Option<Moment> {
        self.entries.get(id).filter(|entry| entry.until.is_none()).map(|entry| Moment(entry.since))
    }

    /// Returns since when an object is at fault that is now found to be so (seconds of Unix time): `now`, unless it is
    /// the same fault that ended a moment ago.
    pub fn began(&self, key: &ObjectKey, generation: Option<i64>, now: i64) -> i64 {
        let own = format!("{key} ");
        let entries = self.entries.range(own.clone()..).take_while(|(id, _)| id.starts_with(&own));
        let errors = entries.filter(|(id, _)| id.ends_with(" error")).map(|(_, entry)| entry);
        let same = errors.filter(|entry| entry.continues(generation, Moment(now)));
        same.map(|entry| entry.since).min().unwrap_or(now)
    }

    /// Records the entries that are present now; all others are not. Returns whether the ledger needs to be stored.
    pub fn observe(&mut self, present: impl IntoIterator<Item = Present>, now: Moment) -> bool {
        let mut changed = false;
        let mut before = std::mem::take(&mut self.entries);
        for Present { id, uid, generation, since } in present {
            if let Some(kept) = self.entries.get_mut(&id) {
                // Of several findings about one part the oldest counts.
                kept.since = since.map_or(kept.since, |since| since.0.min(kept.since));
                continue;
            }
            if self.entries.len() >= LEDGER_ENTRIES_MAX {
                break;
            }
            let known = before.remove(&id).filter(|known| known.uid == uid && known.continues(generation, now));
            changed |= known.is_none();
            let began = known.map_or(now.0, |known| known.since);
            let began = since.map_or(began, |since| since.0.min(began));
            self.entries.insert(id, LedgerEntry { uid, generation, since: began, until: None });
        }
        for (id, mut entry) in before {
            changed |= entry.until.is_none();
            let until = *entry.until.get_or_insert(now.0);
            if !self.entries.contains_key(&id) && now.0.saturating_sub(until) <= SAME_FAULT_SECONDS {
                self.entries.insert(id, entry);
            }
        }
        changed
    }
}

impl LedgerEntry {
    fn continues(&self, generation: Option<i64>, now: Moment) -> bool {
        match self.until {
            None => true,
            Some(until) => self.generation == generation && now.0.saturating_sub(until) <= SAME_FAULT_SECONDS,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn present(id: &str, generation: i64) -> Present {
        Present { id: id.into(), uid: "u".into(), generation: Some(generation), since: None }
    }

    #[test]
    fn a_retry_and_a_restart_keep_the_date_and_another_edit_after_healing_does_not() {
        let mut ledger = Ledger::default();
        assert!(ledger.observe([present("a", 1)], Moment(100)));
        assert!(!ledger.observe([present("a", 1)], Moment(110)));
        assert!(!ledger.observe([present("a", 2)], Moment(120)), "an edit that is broken too");
        assert_eq!(ledger.since("a"), Some(Moment(100)));

        // The version is tried again, and refused again.
        assert!(ledger.observe([], Moment(150)));
        assert_eq!(ledger.since("a"), None);
        ledger.observe([present("a", 2)], Moment(180));
        assert_eq!(ledger.since("a"), Some(Moment(100)));

        // A restart.
        let mut ledger: Ledger = serde_json::from_str(&serde_json::to_string(&ledger).unwrap()).unwrap();
        ledger.observe([present("a", 2)], Moment(200));
        assert_eq!(ledger.since("a"), Some(Moment(100)));

        // The fault ends, and returns in another generation, or much later.
        ledger.observe([], Moment(210));
        ledger.observe([present("a", 3)], Moment(215));
        assert_eq!(ledger.since("a"), Some(Moment(215)));
        ledger.observe([], Moment(220));
        ledger.observe([present("a", 3)], Moment(281));
        assert_eq!(ledger.since("a"), Some(Moment(281)));
    }

    #[test]
    fn another_object_of_the_name_has_a_date_of_its_own_and_a_known_date_counts() {
        let mut ledger = Ledger::default();
        ledger.observe([present("a", 1)], Moment(100));
        ledger.observe([Present { uid: "other".into(), ..present("a", 1) }], Moment(110));
        assert_eq!(ledger.since("a"), Some(Moment(110)));
        ledger.observe([Present { since: Some(Moment(50)), ..present("b", 1) }], Moment(120));
        assert_eq!(ledger.since("b"), Some(Moment(50)));
    }

    #[test]
    fn what_is_beyond_the_limit_is_not_dated() {
        let mut ledger = Ledger::default();
        let many = (0..=LEDGER_ENTRIES_MAX).map(|index| present(&format!("{index:06}"), 1));
        ledger.observe(many, Moment(1));
        assert_eq!(ledger.since("000000"), Some(Moment(1)));
        assert_eq!(ledger.since(&format!("{LEDGER_ENTRIES_MAX:06}")), None);
    }
}
