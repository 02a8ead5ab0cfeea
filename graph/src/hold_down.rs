//! Who is refused again and again waits before the next try; others do not.

use std::collections::{BTreeMap, VecDeque};

use crate::ObjectKey;

/// After how many refusals of one object within `HOLD_DOWN_WINDOW_MS` it waits.
pub const HOLD_DOWN_REFUSALS: usize = 3;
/// Within how many milliseconds refusals count together, and after how many without one the object is free again.
pub const HOLD_DOWN_WINDOW_MS: u64 = 60_000;
/// The first wait, in milliseconds; each refusal after it doubles the wait.
pub const HOLD_DOWN_FIRST_MS: u64 = 1_000;
/// The longest wait, in milliseconds.
pub const HOLD_DOWN_MAX_MS: u64 = 30_000;
/// Of how many objects refusals are counted; beyond it the one that was refused longest ago is forgotten.
pub const HOLD_DOWN_OBJECTS_MAX: usize = 4_096;

/// Refusals of late, by object.
#[derive(Clone, Debug, Default)]
pub(crate) struct HoldDown {
    objects: BTreeMap<ObjectKey, Refusals>,
}

#[derive(Clone, Debug, Default)]
struct Refusals {
    /// The latest, at most `HOLD_DOWN_REFUSALS`.
    latest_ms: VecDeque<u64>,
    /// How long the object waits after the last one.
    wait_ms: u64,
}

impl Refusals {
    fn last_ms(&self) -> u64 {
        self.latest_ms.back().copied().unwrap_or_default()
    }

    fn count(&mut self, now_ms: u64) {
        let last = self.last_ms();
        // A clock that was set back says nothing about how long ago the refusals were.
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
        self.objects.entry(key.clone()).or_default().count(now_ms);
        if self.objects.len() > HOLD_DOWN_OBJECTS_MAX {
            let others = self.objects.iter().filter(|(other, _)| *other != key);
            let oldest = others.min_by_key(|(_, refusals)| refusals.last_ms()).map(|(other, _)| other.clone());
            if let Some(oldest) = oldest {
                self.objects.remove(&oldest);
            }
        }
    }

    /// Until when the object waits; none where it need not.
    pub(crate) fn wait_until(&self, key: &ObjectKey, now_ms: u64) -> Option<u64> {
        let refusals = self.objects.get(key)?;
        let until = refusals.last_ms() + refusals.wait_ms;
        (refusals.last_ms() <= now_ms && now_ms < until).then_some(until)
    }
}
