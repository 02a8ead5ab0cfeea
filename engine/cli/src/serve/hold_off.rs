//! Debouncing of translations: no delay after a quiet time, longer delays under churn.

use std::time::{Duration, Instant};

/// Maximum delay after an event.
pub const HOLD_OFF_MAX: Duration = Duration::from_millis(100);
/// Delay after the second translation in a row; it doubles from there.
const FIRST: Duration = Duration::from_millis(5);
/// Time without events after which there is no delay.
const QUIET: Duration = Duration::from_millis(500);

/// The current delay. The caller passes the time.
#[derive(Debug, Default)]
pub struct HoldOff {
    last: Option<Instant>,
    current: Duration,
}

impl HoldOff {
    /// The delay of events that arrive at `now`.
    pub fn wait(&mut self, now: Instant) -> Duration {
        let quiet = self.last.is_none_or(|last| now.saturating_duration_since(last) >= QUIET);
        self.current = if quiet { Duration::ZERO } else { (self.current * 2).clamp(FIRST, HOLD_OFF_MAX) };
        self.current
    }

    /// Records that a translation ended at `now`.
    pub fn translated(&mut self, now: Instant) {
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_nothing_when_quiet_grows_under_churn_and_has_an_end() {
        let mut hold_off = HoldOff::default();
        let mut now = Instant::now();
        assert_eq!(hold_off.wait(now), Duration::ZERO);
        hold_off.translated(now);
        let mut waits = Vec::new();
        for _ in 0..10 {
            now += Duration::from_millis(10);
            waits.push(hold_off.wait(now));
            hold_off.translated(now);
        }
        assert_eq!(waits.first(), Some(&FIRST));
        assert!(waits.is_sorted());
        assert_eq!(waits.last(), Some(&HOLD_OFF_MAX));
        assert_eq!(hold_off.wait(now + QUIET), Duration::ZERO);
    }
}
