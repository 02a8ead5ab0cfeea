//! Envoys that stop answering: when bytes of each client were last read, and which connections were closed
//! because their client had fallen silent.
//!
//! The server pings every connection, so that bytes of a running Envoy arrive even if nothing changes. Silence is no
//! evidence about the content that an Envoy was sent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::EnvoyId;
use crate::limits::{LOST_ENVOYS_MAX, LOST_TIME_MAX, SILENCE_MAX};

/// When bytes of the client of a connection were last read; clones share the same state.
#[derive(Clone, Debug)]
pub(crate) struct ClientActivity(Arc<ActivityTimes>);

#[derive(Debug)]
struct ActivityTimes {
    opened: Instant,
    /// Milliseconds from the opening until bytes of the client were last read.
    read_ms: AtomicU64,
    /// Whether the client, or its host, closed the connection.
    closed_by_client: AtomicBool,
}

impl ClientActivity {
    /// Returns the state of a connection that was opened now.
    pub(crate) fn of_new(opened: Instant) -> Self {
        let (read_ms, closed_by_client) = (AtomicU64::default(), AtomicBool::default());
        Self(Arc::new(ActivityTimes { opened, read_ms, closed_by_client }))
    }

    /// Records that bytes of the client were read.
    pub(crate) fn bytes_read(&self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.0.opened).as_millis();
        self.0.read_ms.store(u64::try_from(elapsed).unwrap_or(u64::MAX), Relaxed);
    }

    /// Records that the client closed the connection.
    pub(crate) fn closed_by_client(&self) {
        self.0.closed_by_client.store(true, Relaxed);
    }

    /// Returns the time since bytes of the client were last read.
    fn quiet(&self, now: Instant) -> Duration {
        let read = Duration::from_millis(self.0.read_ms.load(Relaxed));
        now.saturating_duration_since(self.0.opened).saturating_sub(read)
    }

    /// Returns the time since bytes of the client were last read, if the client is silent.
    pub(crate) fn silence(&self, now: Instant) -> Option<Duration> {
        Some(self.quiet(now)).filter(|quiet| *quiet >= SILENCE_MAX)
    }

    /// Returns whether the connection was closed because its client had fallen silent.
    pub(crate) fn is_lost(&self, now: Instant) -> bool {
        self.silence(now).is_some() && !self.0.closed_by_client.load(Relaxed)
    }
}

/// An Envoy that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentEnvoy {
    /// The Envoy.
    pub envoy: EnvoyId,
    /// The time since bytes of it were last read.
    pub quiet: Duration,
    /// Whether its connection is still open.
    pub connected: bool,
}

/// Silent Envoys with a closed connection, until they connect again.
#[derive(Debug, Default)]
pub(crate) struct LostEnvoys(Mutex<LostEnvoysByName>);

/// The lost Envoys by fleet and node.
type LostEnvoysByName = BTreeMap<(Arc<str>, Arc<str>), LostEnvoy>;

#[derive(Debug)]
struct LostEnvoy {
    envoy: EnvoyId,
    last_read: Instant,
    closed: Instant,
}

impl LostEnvoy {
    fn is_forgotten(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.closed) >= LOST_TIME_MAX
    }
}

impl LostEnvoys {
    fn lock(&self) -> MutexGuard<'_, LostEnvoysByName> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the end of the last connection of an Envoy that had fallen silent.
    pub(crate) fn left(&self, envoy: &EnvoyId, activity: &ClientActivity, closed: Instant) {
        let last_read = closed.checked_sub(activity.quiet(closed)).unwrap_or(closed);
        let mut lost = self.lock();
        lost.retain(|_, envoy| !envoy.is_forgotten(closed));
        if lost.len() < LOST_ENVOYS_MAX {
            lost.insert(
                (envoy.fleet.clone(), envoy.node.clone()),
                LostEnvoy { envoy: envoy.clone(), last_read, closed },
            );
        }
    }

    /// Records that an Envoy connected.
    pub(crate) fn came(&self, envoy: &EnvoyId) {
        self.lock().remove(&(envoy.fleet.clone(), envoy.node.clone()));
    }

    /// Forgets the Envoys of a fleet.
    pub(crate) fn forget(&self, fleet: &str) {
        self.lock().retain(|(of, _), _| **of != *fleet);
    }

    /// Returns the Envoys that were lost in the last [`LOST_TIME_MAX`].
    pub(crate) fn silent(&self, now: Instant) -> Vec<SilentEnvoy> {
        let lost = self.lock();
        let recent = lost.values().filter(|envoy| !envoy.is_forgotten(now));
        let silent = |LostEnvoy { envoy, last_read, .. }: &LostEnvoy| SilentEnvoy {
            envoy: envoy.clone(),
            quiet: now.saturating_duration_since(*last_read),
            connected: false,
        };
        recent.map(silent).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::Fleets;
    use crate::connection::Protocol;
    use crate::limits::KEEPALIVE;
    use crate::testing::{client, envoy};

    fn silent(fleets: &Fleets, now: Instant) -> Vec<(String, bool)> {
        fleets.silent_at(now).into_iter().map(|silent| (silent.envoy.node.to_string(), silent.connected)).collect()
    }

    #[tokio::test]
    async fn an_envoy_is_silent_until_bytes_of_it_are_read() {
        let fleets = Fleets::new();
        let (one, two) = (ClientActivity::of_new(Instant::now()), ClientActivity::of_new(Instant::now()));
        let _first = fleets.join(envoy("a/b one"), Protocol::Delta, client(one.clone()));
        let _second = fleets.join(envoy("a/b two"), Protocol::Sotw, client(two.clone()));
        let now = Instant::now();
        two.bytes_read(now + KEEPALIVE);
        let now = now + SILENCE_MAX;
        assert_eq!(silent(&fleets, now), [("one".to_owned(), true)]);
        assert!(fleets.silent_at(now).iter().all(|silent| silent.quiet >= SILENCE_MAX));
        one.bytes_read(now);
        assert_eq!(silent(&fleets, now), []);
        let now = now + SILENCE_MAX;
        assert_eq!(silent(&fleets, now), [("one".to_owned(), true), ("two".to_owned(), true)]);
        let _new = fleets.join(envoy("a/b one"), Protocol::Delta, client(ClientActivity::of_new(now)));
        assert_eq!(silent(&fleets, now), [("two".to_owned(), true)], "an Envoy with a new and an old connection");
    }

    #[tokio::test]
    async fn a_silent_envoy_with_a_closed_connection_is_reported_until_it_connects_again() {
        let (lost, one) = (LostEnvoys::default(), envoy("a/b one"));
        let nodes = |now| lost.silent(now).into_iter().map(|silent| silent.quiet).collect::<Vec<_>>();
        let now = Instant::now();
        let (activity, closed) = (ClientActivity::of_new(now), now + SILENCE_MAX);
        assert!(activity.is_lost(closed) && !activity.is_lost(now + KEEPALIVE));
        lost.left(&one, &activity, closed);
        assert_eq!(nodes(closed + KEEPALIVE), [SILENCE_MAX + KEEPALIVE]);
        assert_eq!(nodes(closed + LOST_TIME_MAX), []);
        lost.came(&one);
        assert_eq!(nodes(closed), []);
        lost.left(&one, &activity, closed);
        lost.forget("a/b");
        assert_eq!(nodes(closed), []);
        activity.closed_by_client();
        assert!(!activity.is_lost(closed), "the Envoy ended");
    }
}
