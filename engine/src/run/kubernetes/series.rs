//! Which Events repeat one that was told: they are counted in it, and no new one is made.

use std::collections::BTreeMap;

/// How long after it was told last an Event is repeated and not told anew (milliseconds).
const REPEATED_WITHIN_MS: u64 = 6 * 60 * 1000;
/// How many Events are remembered; beyond that the oldest are told anew.
const REMEMBERED_MAX: usize = 1024;

/// What makes two Events the same: the words too, since those of the first would stand for both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Same {
    pub(super) reason: String,
    pub(super) regarding: String,
    pub(super) note: String,
}

/// How an Event is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A new one.
    New,
    /// The one of this name was told so many times by now.
    Again { name: String, count: i32 },
}

/// Those that were told.
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
    /// How this one is to be written.
    pub(super) fn form(&mut self, same: &Same, now_ms: u64) -> Form {
        self.told.retain(|_, told| now_ms.saturating_sub(told.last_ms) <= REPEATED_WITHIN_MS);
        match self.told.get(same) {
            Some(told) => Form::Again { name: told.name.clone(), count: told.count.saturating_add(1) },
            None => Form::New,
        }
    }

    /// It was written.
    pub(super) fn told(&mut self, same: Same, name: String, count: i32, now_ms: u64) {
        if self.told.len() >= REMEMBERED_MAX {
            let oldest = self.told.iter().min_by_key(|(_, told)| told.last_ms).map(|(same, _)| same.clone());
            oldest.map(|same| self.told.remove(&same));
        }
        self.told.insert(same, Told { name, count, last_ms: now_ms });
    }

    /// It is not there any more.
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
