//! Heartbeat of the main loop: what the loop works on, and since when. `/healthz`, a metric and the watchdog read it.
//!
//! The loop must never be the one that judges itself: a loop that does not run reports nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Maximum time that the loop waits for anything before it counts as stuck. It has a timer of one second, so a longer
/// wait means that the timer or the wake-up was lost.
pub const LOOP_WAIT_MAX: Duration = Duration::from_secs(30);
/// Maximum duration of one piece of work, such as a translation, before the loop counts as stuck. The first translation
/// of 50,000 routes takes seconds.
pub const LOOP_WORK_MAX: Duration = Duration::from_secs(600);

/// Number of bits of the activity in the packed state.
const ACTIVITY_BITS: u32 = 3;

/// What the main loop works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The loop has not started: the store and the probe are being opened.
    Starting,
    /// The loop waits for events.
    Waiting,
    /// It translates changed objects.
    Translation,
    /// It processes other events: answers of Envoys and of the probe, and the clock.
    Events,
    /// It reports: faults, health, statuses.
    Reports,
    /// It answers a query of a page.
    Query,
    /// It has ended: Envoys and the probe are being ended.
    Ending,
}

impl Activity {
    const ALL: [Self; 7] =
        [Self::Starting, Self::Waiting, Self::Translation, Self::Events, Self::Reports, Self::Query, Self::Ending];

    fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Waiting => "waiting for events",
            Self::Translation => "translating",
            Self::Events => "processing events",
            Self::Reports => "reporting",
            Self::Query => "answering a query",
            Self::Ending => "ending",
        }
    }
}

/// The last sign of life of the main loop.
#[derive(Clone, Copy, Debug)]
pub struct LastBeat {
    /// What the loop has worked on since then.
    pub activity: Activity,
    /// The time since then.
    pub age: Duration,
}

impl LastBeat {
    /// Returns whether the loop counts as stuck.
    pub fn is_stuck(&self) -> bool {
        match self.activity {
            Activity::Starting | Activity::Ending => false,
            Activity::Waiting => self.age >= LOOP_WAIT_MAX,
            _ => self.age >= LOOP_WORK_MAX,
        }
    }
}

impl std::fmt::Display for LastBeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the main loop last ran {} s ago ({})", self.age.as_secs(), self.activity.name())
    }
}

/// The heartbeat of the main loop.
#[derive(Debug)]
pub struct Heartbeat {
    started: Instant,
    /// Milliseconds from the start to the last beat, and the activity in the lowest bits: one value, so that a reader
    /// never sees the time of one activity with the name of another.
    last: AtomicU64,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self { started: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl Heartbeat {
    /// Records what the loop does from now on.
    pub fn beat(&self, activity: Activity) {
        let milliseconds = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX >> ACTIVITY_BITS);
        self.last.store(milliseconds << ACTIVITY_BITS | activity as u64, Relaxed);
    }

    /// The last beat.
    pub fn last(&self) -> LastBeat {
        self.last_at(Instant::now())
    }

    fn last_at(&self, now: Instant) -> LastBeat {
        let packed = self.last.load(Relaxed);
        let index = usize::try_from(packed & ((1 << ACTIVITY_BITS) - 1)).unwrap_or(0);
        let activity = Activity::ALL.get(index).copied().unwrap_or(Activity::Starting);
        let elapsed = now.saturating_duration_since(self.started);
        LastBeat { activity, age: elapsed.saturating_sub(Duration::from_millis(packed >> ACTIVITY_BITS)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_activity_is_read_as_it_was_written() {
        for activity in Activity::ALL {
            let heartbeat = Heartbeat::default();
            heartbeat.beat(activity);
            assert_eq!(heartbeat.last().activity, activity);
        }
    }

    #[test]
    fn a_loop_is_stuck_sooner_while_it_waits_than_while_it_works() {
        let heartbeat = Heartbeat::default();
        let stuck = |activity, after| {
            heartbeat.beat(activity);
            heartbeat.last_at(Instant::now() + after).is_stuck()
        };
        let later = Duration::from_millis(100);
        assert!(!stuck(Activity::Starting, LOOP_WORK_MAX + later));
        assert!(!stuck(Activity::Waiting, LOOP_WAIT_MAX - later));
        assert!(stuck(Activity::Waiting, LOOP_WAIT_MAX + later));
        assert!(!stuck(Activity::Translation, LOOP_WORK_MAX - later));
        assert!(stuck(Activity::Translation, LOOP_WORK_MAX + later));
    }

    #[test]
    fn the_text_has_the_age_and_the_activity() {
        let last = LastBeat { activity: Activity::Waiting, age: Duration::from_millis(42_900) };
        assert_eq!(last.to_string(), "the main loop last ran 42 s ago (waiting for events)");
    }
}
