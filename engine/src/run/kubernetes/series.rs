//! Series of Events: a repetition is counted in the first Event instead of a new one.

use std::collections::BTreeMap;

/// How long after its last occurrence an Event counts as repeated, in milliseconds.
const REPEATED_WITHIN_MS: u64 = 6 * 60 * 1000;
/// Maximum number of remembered Events; beyond it a repetition of the oldest one becomes a new Event.
const REMEMBERED_MAX: usize = 1024;

/// The key of equal Events. It includes the note, since the note of the first Event is kept for all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Same {
    pub(super) reason: String,
    pub(super) regarding: String,
    pub(super) note: String,
}

/// The form in which an Event is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A new Event.
    New,
    /// A repetition of the Event with this name, with the number of occurrences.
    Again { name: String, count: i32 },
}

/// The Events that were written.
#[derive(Debug, Default)]
pub(super) struct Series {
    told: BTreeMap<Same, Told>,
}

#[derive(Debug)]
struct Told {
    name: String,
    count: i32,
    last_ms: u64,
}

impl Series {
    /// The form in which an Event has to be written.
    pub(super) fn form(&mut self, same: &Same, now_ms: u64) -> Form {
        self.told.retain(|_, told| now_ms.saturating_sub(told.last_ms) <= REPEATED_WITHIN_MS);
        match self.told.get(same) {
            Some(told) => Form::Again { name: told.name.clone(), count: told.count.saturating_add(1) },
            None => Form::New,
        }
    }

    /// Records a written Event.
    pub(super) fn told(&mut self, same: Same, name: String, count: i32, now_ms: u64) {
        if self.told.len() >= REMEMBERED_MAX {
            let oldest = self.told.iter().min_by_key(|(_, told)| told.last_ms).map(|(same, _)| same.clone());
            oldest.map(|same| self.told.remove(&same));
        }
        self.told.insert(same, Told { name, count, last_ms: now_ms });
    }

    /// Removes an Event that no longer exists.
    pub(super) fn forget(&mut self, same: &Same) {
        self.told.remove(same);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(note: &str) -> Same {
        Same { reason: "Backfilled".into(), regarding: "a".into(), note: note.into() }
    }

    #[test]
    fn what_is_told_again_soon_is_counted() {
        let mut series = Series::default();
        assert_eq!(series.form(&same("x"), 0), Form::New);
        series.told(same("x"), "one".into(), 1, 0);
        assert_eq!(series.form(&same("x"), 10), Form::Again { name: "one".into(), count: 2 });
        series.told(same("x"), "one".into(), 2, 10);
        assert_eq!(series.form(&same("x"), 20), Form::Again { name: "one".into(), count: 3 });
        assert_eq!(series.form(&same("y"), 20), Form::New, "other words are another Event");
        assert_eq!(series.form(&same("x"), REPEATED_WITHIN_MS + 11), Form::New);
        series.told(same("x"), "two".into(), 1, 0);
        series.forget(&same("x"));
        assert_eq!(series.form(&same("x"), 0), Form::New);
    }

    #[test]
    fn no_more_than_so_many_are_remembered() {
        let mut series = Series::default();
        for n in 0..REMEMBERED_MAX + 5 {
            series.told(same(&n.to_string()), n.to_string(), 1, n as u64);
        }
        assert_eq!(series.told.len(), REMEMBERED_MAX);
        assert_eq!(series.form(&same("4"), 2000), Form::New);
        assert_ne!(series.form(&same("5"), 2000), Form::New);
    }
}
