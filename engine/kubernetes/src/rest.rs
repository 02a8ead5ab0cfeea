//! Backoff of watches.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;

/// Maximum wait: within this time a watch reconnects to an API server that is available again.
pub(crate) const WATCH_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Increasing waits, up to [`WATCH_PAUSE_MAX`].
#[derive(Default)]
pub(crate) struct Rest(DefaultBackoff);

impl Iterator for Rest {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|rest| rest.min(WATCH_PAUSE_MAX))
    }
}

impl Backoff for Rest {
    fn reset(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wait_is_longer_than_the_longest() {
        let rests: Vec<Duration> = Rest::default().take(40).collect();
        assert_eq!(rests.len(), 40);
        assert!(rests.iter().all(|rest| *rest <= WATCH_PAUSE_MAX));
        assert!(rests.first().is_some_and(|first| *first < WATCH_PAUSE_MAX));
    }
}
