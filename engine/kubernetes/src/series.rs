//! Series of Events: a repetition is counted in the first Event instead of a new one.
//!
//! The `Recorder` of `kube` takes Events for repetitions although their notes differ, and keeps the first note: the fault
//! of the next edit would only raise the count of an Event about the edit before.

use std::collections::BTreeMap;

/// How long after its last occurrence an Event counts as repeated, in milliseconds.
const REPEATED_WITHIN_MS: u64 = 6 * 60 * 1000;
/// Maximum number of remembered Events; beyond it a repetition of the oldest one becomes a new Event.
const REMEMBERED_EVENTS_MAX: usize = 1024;

/// The key of equal Events. It includes the note, since the note of the first Event is kept for all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Same {
    pub(crate) reason: String,
    pub(crate) regarding: String,
    pub(crate) note: String,
}

/// The form in which an Event is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventForm {
    /// A new Event.
    New,
    /// A repetition of the Event with this name, with the number of occurrences.
    Again { name: String, count: i32 },
}

/// The Events that were written.
#[derive(Debug, Default)]
pub(crate) struct Series {
    written: BTreeMap<Same, WrittenEvent>,
}

#[derive(Debug)]
struct WrittenEvent {
    name: String,
    count: i32,
    last_ms: u64,
}

impl Series {
    /// The form in which an Event has to be written.
    pub(crate) fn form(&mut self, same: &Same, now_ms: u64) -> EventForm {
        self.written.retain(|_, last| now_ms.saturating_sub(last.last_ms) <= REPEATED_WITHIN_MS);
        match self.written.get(same) {
            Some(last) => EventForm::Again { name: last.name.clone(), count: last.count.saturating_add(1) },
            None => EventForm::New,
        }
    }

    /// Records a written Event.
    pub(crate) fn record(&mut self, same: Same, name: String, count: i32, now_ms: u64) {
        if self.written.len() >= REMEMBERED_EVENTS_MAX {
            let oldest = self.written.iter().min_by_key(|(_, last)| last.last_ms).map(|(same, _)| same.clone());
            oldest.map(|same| self.written.remove(&same));
        }
        self.written.insert(same, WrittenEvent { name, count, last_ms: now_ms });
    }

    /// Removes an Event that no longer exists.
    pub(crate) fn forget(&mut self, same: &Same) {
        self.written.remove(same);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(note: &str) -> Same {
        Same { reason: "Backfilled".into(), regarding: "a".into(), note: note.into() }
    }

    #[test]
    fn an_event_repeated_soon_is_counted() {
        let mut series = Series::default();
        assert_eq!(series.form(&same("x"), 0), EventForm::New);
        series.record(same("x"), "one".into(), 1, 0);
        assert_eq!(series.form(&same("x"), 10), EventForm::Again { name: "one".into(), count: 2 });
        series.record(same("x"), "one".into(), 2, 10);
        assert_eq!(series.form(&same("x"), 20), EventForm::Again { name: "one".into(), count: 3 });
        assert_eq!(series.form(&same("y"), 20), EventForm::New, "other words are another Event");
        assert_eq!(series.form(&same("x"), REPEATED_WITHIN_MS + 11), EventForm::New);
        series.record(same("x"), "two".into(), 1, 0);
        series.forget(&same("x"));
        assert_eq!(series.form(&same("x"), 0), EventForm::New);
    }

    #[test]
    fn no_more_than_so_many_are_remembered() {
        let mut series = Series::default();
        for n in 0..REMEMBERED_EVENTS_MAX + 5 {
            series.record(same(&n.to_string()), n.to_string(), 1, n as u64);
        }
        assert_eq!(series.written.len(), REMEMBERED_EVENTS_MAX);
        assert_eq!(series.form(&same("4"), 2000), EventForm::New);
        assert_ne!(series.form(&same("5"), 2000), EventForm::New);
    }
}
