//! Hold-down of objects that Envoy refuses repeatedly: these objects wait before the next try, others do not.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::ObjectKey;

/// Number of refusals of one object within `HOLD_DOWN_WINDOW_MS` after which the object waits.
pub const HOLD_DOWN_REFUSALS: usize = 3;
/// Window in which refusals count together, in milliseconds; after this time without a refusal, the object is free
/// again.
pub const HOLD_DOWN_WINDOW_MS: u64 = 60_000;
/// The first wait, in milliseconds; each refusal after it doubles the wait.
pub const HOLD_DOWN_FIRST_MS: u64 = 1_000;
/// The longest wait, in milliseconds.
pub const HOLD_DOWN_MAX_MS: u64 = 30_000;
/// Number of objects with counted refusals; beyond it, the object with the oldest last refusal is forgotten.
pub const HOLD_DOWN_OBJECTS_MAX: usize = 4_096;

/// Recent refusals, by object.
#[derive(Clone, Debug, Default)]
pub(crate) struct HoldDown {
    objects: HashMap<ObjectKey, ObjectRefusals>,
    /// Objects by the time of the last refusal, so that forgetting the oldest does not visit the others.
    ages: BTreeSet<(u64, ObjectKey)>,
}

#[derive(Clone, Debug, Default)]
struct ObjectRefusals {
    /// Times of the latest refusals, at most `HOLD_DOWN_REFUSALS`.
    latest_ms: VecDeque<u64>,
    /// Time for which the object waits after the last refusal.
    wait_ms: u64,
}

impl ObjectRefusals {
    fn last_ms(&self) -> u64 {
        self.latest_ms.back().copied().unwrap_or_default()
    }

    fn count(&mut self, now_ms: u64) {
        let last = self.last_ms();
        // After the clock was set back, the age of the refusals is unknown.
        if now_ms < last || now_ms - last > HOLD_DOWN_WINDOW_MS + self.wait_ms {
            *self = Self::default();
        }
        self.latest_ms.push_back(now_ms);
        if self.latest_ms.len() > HOLD_DOWN_REFUSALS {
            self.latest_ms.pop_front();
        }
        if self.wait_ms > 0 {
            self.wait_ms = (self.wait_ms * 2).min(HOLD_DOWN_MAX_MS);
        } else if self.latest_ms.len() == HOLD_DOWN_REFUSALS
            && self.latest_ms.front().is_some_and(|first| now_ms - first <= HOLD_DOWN_WINDOW_MS)
        {
            self.wait_ms = HOLD_DOWN_FIRST_MS;
        }
    }
}

impl HoldDown {
    /// Counts a refusal.
    pub(crate) fn refused(&mut self, key: &ObjectKey, now_ms: u64) {
        let refusals = self.objects.entry(key.clone()).or_default();
        self.ages.remove(&(refusals.last_ms(), key.clone()));
        refusals.count(now_ms);
        if self.objects.len() > HOLD_DOWN_OBJECTS_MAX
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.objects.remove(&oldest);
        }
        self.ages.insert((now_ms, key.clone()));
    }

    /// Returns the time until which the object waits, or `None` where it need not wait.
    pub(crate) fn wait_until(&self, key: &ObjectKey, now_ms: u64) -> Option<u64> {
        let refusals = self.objects.get(key)?;
        let until = refusals.last_ms() + refusals.wait_ms;
        (refusals.last_ms() <= now_ms && now_ms < until).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("g", "Route", "ns", name)
    }

    /// Refuses at these seconds and returns the wait after each refusal, in seconds.
    fn waits(seconds: &[u64]) -> Vec<u64> {
        let mut hold_down = HoldDown::default();
        let wait = |second: &u64| {
            hold_down.refused(&key("a"), second * 1_000);
            hold_down.wait_until(&key("a"), second * 1_000).map_or(0, |until| until / 1_000 - second)
        };
        seconds.iter().map(wait).collect()
    }

    #[test]
    fn three_within_a_minute_wait_and_each_more_waits_twice_as_long() {
        assert_eq!(waits(&[0, 30, 60]), [0, 0, 1]);
        assert_eq!(waits(&[0, 1, 2, 4, 7, 12, 21, 38, 69, 159]), [0, 0, 1, 2, 4, 8, 16, 30, 30, 30]);
    }

    #[test]
    fn refusals_far_apart_do_not_count_together() {
        assert_eq!(waits(&[0, 30, 61, 92]), [0, 0, 0, 0]);
        assert_eq!(waits(&[0, 1, 2, 3, 4, 96]), [0, 0, 1, 2, 4, 0]);
        assert_eq!(waits(&[0, 1, 2, 64, 65, 66]), [0, 0, 1, 0, 0, 1]);
    }

    #[test]
    fn a_clock_that_is_set_back_holds_no_object() {
        let mut hold_down = HoldDown::default();
        (0..3).for_each(|_| hold_down.refused(&key("a"), 1_000_000));
        assert_eq!(hold_down.wait_until(&key("a"), 1_000_500), Some(1_001_000));
        assert_eq!(hold_down.wait_until(&key("a"), 1_001_000), None);
        assert_eq!(hold_down.wait_until(&key("a"), 500), None);
        assert_eq!(waits(&[100, 101, 102, 10, 11, 12]), [0, 0, 1, 0, 0, 1]);
    }

    #[test]
    fn others_do_not_wait_and_the_oldest_is_forgotten() {
        let mut hold_down = HoldDown::default();
        (0..3).for_each(|_| hold_down.refused(&key("a"), 1_000));
        assert!(hold_down.wait_until(&key("b"), 1_000).is_none());
        for index in 0..HOLD_DOWN_OBJECTS_MAX - 1 {
            hold_down.refused(&key(&index.to_string()), 1_001);
        }
        assert!(hold_down.wait_until(&key("a"), 1_001).is_some());
        hold_down.refused(&key("more"), 1_002);
        assert!(hold_down.wait_until(&key("a"), 1_001).is_none());
        assert_eq!((hold_down.objects.len(), hold_down.ages.len()), (HOLD_DOWN_OBJECTS_MAX, HOLD_DOWN_OBJECTS_MAX));
    }
}
