//! Ledger of faults: since when objects are at fault, across edits, retries and restarts.

use std::collections::BTreeMap;

use holdfast_check::time::Moment;
use holdfast_graph::ObjectKey;
use serde::{Deserialize, Serialize};

/// Maximum number of dated objects; faults of further objects are dated from when they are shown.
pub const LEDGER_ENTRIES_MAX: usize = 50_000;
/// Time after the end of a refusal in which a refusal of the same object, in the same generation, is the same fault
/// (seconds). A refused version is tried again after up to 30 seconds, and is not at fault meanwhile. All other faults
/// end at once: a fault that returns is a new one.
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
    /// Whether an Envoy or the probe refused the part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    refused: bool,
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
    /// Since when, where another source knows. That source dates the object, and not each of its parts.
    pub since: Option<Moment>,
    /// Whether an Envoy or the probe refused the part.
    pub refused: bool,
}

impl Ledger {
    /// Returns since when an entry is present.
    pub fn since(&self, id: &str) -> Option<Moment> {
        self.entries.get(id).filter(|entry| entry.until.is_none()).map(|entry| Moment(entry.since))
    }

    /// Returns since when an object is at fault that is now found to be so (seconds of Unix time): `now`, unless the fault
    /// is present, or is a refusal (`refused`) of the same version, which was tried again.
    pub fn began(&self, key: &ObjectKey, generation: Option<i64>, refused: bool, now: i64) -> i64 {
        let entries = self.parts(&key.to_string());
        let errors = entries.filter(|(id, _)| id.ends_with(" error")).map(|(_, entry)| entry);
        let same = errors.filter(|entry| entry.continues(generation, refused, Moment(now)));
        same.map(|entry| entry.since).min().unwrap_or(now)
    }

    /// Records the entries that are present now; all others are not. Returns whether the ledger needs to be stored.
    pub fn observe(&mut self, present: impl IntoIterator<Item = Present>, now: Moment) -> bool {
        let mut changed = false;
        let before = Self { entries: std::mem::take(&mut self.entries) };
        for Present { id, uid, generation, since, refused } in present {
            let since = since.filter(|_| refused || before.is_first(&id, &uid, generation));
            if let Some(kept) = self.entries.get_mut(&id) {
                // Of several findings about one part the oldest counts.
                kept.since = since.map_or(kept.since, |since| since.0.min(kept.since));
                kept.refused |= refused;
                continue;
            }
            if self.entries.len() >= LEDGER_ENTRIES_MAX {
                break;
            }
            let known = before.entries.get(&id);
            let known = known.filter(|known| known.uid == uid && known.continues(generation, refused, now));
            changed |= known.is_none_or(|known| known.until.is_some() || known.refused != refused);
            let began = known.map_or(now.0, |known| known.since);
            let began = since.map_or(began, |since| since.0.min(began));
            self.entries.insert(id, LedgerEntry { uid, generation, since: began, refused, until: None });
        }
        for (id, mut entry) in before.entries {
            if self.entries.contains_key(&id) {
                continue;
            }
            changed |= entry.until.is_none();
            let until = *entry.until.get_or_insert(now.0);
            if entry.refused && now.0.saturating_sub(until) <= SAME_FAULT_SECONDS {
                self.entries.insert(id, entry);
            }
        }
        changed
    }

    /// Checks whether the part is newly at fault, and no other part of the object is, in this version: then the object
    /// is at fault since the part is.
    fn is_first(&self, id: &str, uid: &str, generation: Option<i64>) -> bool {
        let object = id.rsplitn(3, ' ').last().unwrap_or(id);
        let is_same = |entry: &LedgerEntry| entry.until.is_none() && entry.uid == uid && entry.generation == generation;
        let is_new = self.entries.get(id).is_none_or(|entry| entry.until.is_some() || entry.uid != uid);
        is_new && !self.parts(object).any(|(_, entry)| is_same(entry))
    }

    /// Returns the entries of an object.
    fn parts(&self, object: &str) -> impl Iterator<Item = (&String, &LedgerEntry)> + use<'_> {
        let own = format!("{object} ");
        self.entries.range(own.clone()..).take_while(move |(id, _)| id.starts_with(&own))
    }
}

impl LedgerEntry {
    fn continues(&self, generation: Option<i64>, refused: bool, now: Moment) -> bool {
        let is_recent = |until: i64| now.0.saturating_sub(until) <= SAME_FAULT_SECONDS;
        match self.until {
            None => true,
            Some(until) => self.refused && refused && self.generation == generation && is_recent(until),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn present(id: &str, generation: i64) -> Present {
        Present { id: id.into(), uid: "u".into(), generation: Some(generation), since: None, refused: false }
    }

    fn refused(id: &str, generation: i64) -> Present {
        Present { refused: true, ..present(id, generation) }
    }

    fn restarted(ledger: &Ledger) -> Ledger {
        serde_json::from_str(&serde_json::to_string(ledger).unwrap()).unwrap()
    }

    #[test]
    fn a_fault_that_ended_has_a_new_date_also_without_an_edit_and_a_restart_keeps_a_present_one() {
        let key = ObjectKey::new("", "Secret", "shop", "cert");
        let id = &format!("{key}  error");
        let mut ledger = Ledger::default();
        ledger.observe([present(id, 1)], Moment(100));
        ledger.observe([], Moment(130));
        assert_eq!(ledger.began(&key, Some(1), false, 136), 136);
        assert!(ledger.observe([present(id, 1)], Moment(136)));
        assert_eq!(ledger.since(id), Some(Moment(136)));

        // Present, restart, present: the date stays, also for the fallback, which reads it first.
        let mut ledger = restarted(&ledger);
        assert_eq!(ledger.began(&key, Some(1), false, 400), 136);
        assert!(!ledger.observe([present(id, 1)], Moment(400)));
        assert_eq!(ledger.since(id), Some(Moment(136)));

        // Ended, restart, present.
        ledger.observe([], Moment(410));
        let mut ledger = restarted(&ledger);
        assert_eq!(ledger.began(&key, Some(1), false, 420), 420);
        ledger.observe([present(id, 1)], Moment(420));
        assert_eq!(ledger.since(id), Some(Moment(420)));

        // A refusal that ended is not a missing object.
        ledger.observe([refused(id, 1)], Moment(430));
        assert_eq!(ledger.since(id), Some(Moment(420)), "the fault goes on, with another witness");
        ledger.observe([], Moment(440));
        assert_eq!(ledger.began(&key, Some(1), true, 450), 420);
        assert_eq!(ledger.began(&key, Some(1), false, 450), 450);
        ledger.observe([present(id, 1)], Moment(450));
        assert_eq!(ledger.since(id), Some(Moment(450)));
    }

    #[test]
    fn a_part_that_breaks_later_without_an_edit_has_a_date_of_its_own() {
        let (first, second) = ("v1/HTTPRoute/shop/a rules[0] error", "v1/HTTPRoute/shop/a rules[1] error");
        let dated = |id: &str, generation| Present { since: Some(Moment(100)), ..present(id, generation) };
        let mut ledger = Ledger::default();
        ledger.observe([dated(first, 1)], Moment(110));
        ledger.observe([dated(first, 1), dated(second, 1)], Moment(200));
        ledger.observe([dated(first, 1), dated(second, 1)], Moment(210));
        assert_eq!((ledger.since(first), ledger.since(second)), (Some(Moment(100)), Some(Moment(200))));
        let mut ledger = restarted(&ledger);
        ledger.observe([dated(first, 1), dated(second, 1)], Moment(220));
        assert_eq!((ledger.since(first), ledger.since(second)), (Some(Moment(100)), Some(Moment(200))));

        // An edit that moves the fault to another rule does not end it.
        ledger.observe([dated("v1/HTTPRoute/shop/a rules[2] error", 2)], Moment(230));
        assert_eq!(ledger.since("v1/HTTPRoute/shop/a rules[2] error"), Some(Moment(100)));
    }

    #[test]
    fn a_refusal_that_returns_is_stored_again() {
        let mut ledger = Ledger::default();
        ledger.observe([refused("a", 1)], Moment(100));
        ledger.observe([], Moment(110));
        assert!(ledger.observe([refused("a", 1)], Moment(120)));
        let mut ledger = restarted(&ledger);
        ledger.observe([refused("a", 1)], Moment(500));
        assert_eq!(ledger.since("a"), Some(Moment(100)));
    }

    #[test]
    fn a_retry_and_a_restart_keep_the_date_and_another_edit_after_healing_does_not() {
        let mut ledger = Ledger::default();
        assert!(ledger.observe([refused("a", 1)], Moment(100)));
        assert!(!ledger.observe([refused("a", 1)], Moment(110)));
        assert!(!ledger.observe([refused("a", 2)], Moment(120)), "an edit that is broken too");
        assert_eq!(ledger.since("a"), Some(Moment(100)));

        // The version is tried again, and refused again.
        assert!(ledger.observe([], Moment(150)));
        assert_eq!(ledger.since("a"), None);
        ledger.observe([refused("a", 2)], Moment(180));
        assert_eq!(ledger.since("a"), Some(Moment(100)));

        // A restart.
        let mut ledger = restarted(&ledger);
        ledger.observe([refused("a", 2)], Moment(200));
        assert_eq!(ledger.since("a"), Some(Moment(100)));

        // The fault ends, and returns in another generation, or much later.
        ledger.observe([], Moment(210));
        ledger.observe([refused("a", 3)], Moment(215));
        assert_eq!(ledger.since("a"), Some(Moment(215)));
        ledger.observe([], Moment(220));
        ledger.observe([refused("a", 3)], Moment(281));
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
