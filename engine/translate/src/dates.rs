//! The time, and the later times at which an outcome changes without an edit: the dates of certificates.
//!
//! There is no clock here: the engine passes the time of its clock events. Outcomes depend on the time only through a
//! [`Dates`], so that the units to translate again are known.

use std::collections::BTreeSet;

/// The time, and the times that units wait for.
#[derive(Debug, Default)]
pub(crate) struct Dates {
    /// In seconds of Unix time; unset before the first clock event.
    now: Option<i64>,
    awaited: BTreeSet<i64>,
    passed: u64,
}

impl Dates {
    /// Returns the time in seconds of Unix time; unset where it is unknown, so that no date has an effect.
    pub(crate) fn now(&self) -> Option<i64> {
        self.now
    }

    /// Returns how often a time came that a unit waited for.
    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }

    /// Adds a time that a unit waits for.
    pub(crate) fn wait_for(&mut self, time: i64) {
        self.awaited.insert(time);
    }

    /// Sets the time, which never goes back. Returns the awaited times that have come; all of them if the time was
    /// unknown before.
    pub(crate) fn set(&mut self, now: i64) -> Vec<i64> {
        let is_first = self.now.is_none();
        let now = self.now.map_or(now, |before| before.max(now));
        self.now = Some(now);
        let mut come = Vec::new();
        while let Some(first) = self.awaited.first().copied().filter(|first| is_first || *first <= now) {
            self.awaited.remove(&first);
            come.push(first);
        }
        self.passed += u64::from(!come.is_empty());
        come
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awaited_times_come_once() {
        let mut dates = Dates::default();
        [5, 10, 20].into_iter().for_each(|time| dates.wait_for(time));
        assert_eq!(dates.set(1), [5, 10, 20], "each unit that read an unknown time reads it again");
        [5, 10, 20].into_iter().for_each(|time| dates.wait_for(time));
        assert!(dates.set(4).is_empty());
        assert_eq!(dates.set(10), [5, 10]);
        assert!(dates.set(3).is_empty(), "the time does not go back");
        assert_eq!(dates.now(), Some(10));
        assert_eq!(dates.set(30), [20]);
        assert_eq!(dates.passed(), 3);
    }
}
