//! Detection of Envoys that do not answer: a frozen process, or a host without network, keeps its stream open, accepts no
//! response, and sends nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_check::time::Moment;
use holdfast_engine::health::facts::NotAnswering;
use holdfast_xds::{SilentEnvoy, Unanswered};

/// How long a response may be unanswered before its Envoy is reported. Envoy normally answers within milliseconds.
pub(crate) const UNANSWERED_TIME_MAX: Duration = Duration::from_secs(5);

/// The Envoys that do not answer, by Gateway (`namespace/name`) and node.
pub(crate) type NotAnsweringByGateway = BTreeMap<Arc<str>, BTreeMap<Arc<str>, NotAnswering>>;

/// What is known about Envoys that do not answer.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Since when the oldest response of each stream is unanswered.
    unanswered: BTreeMap<(u64, u64), Instant>,
    /// The result of the last look.
    seen: NotAnsweringByGateway,
}

/// The time of a look, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct LookTime {
    pub(super) instant: Instant,
    pub(super) moment: Moment,
}

impl LookTime {
    fn before(&self, elapsed: Duration) -> Moment {
        Moment(self.moment.0.saturating_sub(i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX)))
    }
}

impl Silence {
    /// Records the unanswered responses and the silent Envoys; returns whether the Envoys that do not answer changed.
    pub(super) fn look(&mut self, unanswered: Vec<Unanswered>, silent: Vec<SilentEnvoy>, now: LookTime) -> bool {
        let mut found = NotAnsweringByGateway::new();
        let mut since = BTreeMap::new();
        for Unanswered { envoy, stream, nonce } in unanswered {
            let began = self.unanswered.get(&(stream, nonce)).copied().unwrap_or(now.instant);
            since.insert((stream, nonce), began);
            let elapsed = now.instant.duration_since(began);
            if elapsed >= UNANSWERED_TIME_MAX {
                let since = now.before(elapsed);
                let envoys = found.entry(envoy.fleet).or_default();
                envoys.insert(envoy.node, NotAnswering { since, is_connected: true, is_silent: false });
            }
        }
        self.unanswered = since;
        for SilentEnvoy { envoy, quiet, connected } in silent {
            let envoys = found.entry(envoy.fleet).or_default();
            let is_connected = connected || envoys.contains_key(&envoy.node);
            envoys.insert(envoy.node, NotAnswering { since: now.before(quiet), is_connected, is_silent: true });
        }
        for (gateway, envoys) in &mut found {
            let seen = self.seen.get(gateway);
            for (node, envoy) in envoys {
                // Seconds are rounded, and a date that was reported once does not change.
                if let Some(seen) = seen.and_then(|seen| seen.get(node)) {
                    envoy.since = envoy.since.min(seen.since);
                }
            }
        }
        let has_changed = self.seen != found;
        self.seen = found;
        has_changed
    }

    /// Returns the Envoys that did not answer at the last look.
    pub(super) fn seen(&self) -> &NotAnsweringByGateway {
        &self.seen
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use holdfast_xds::EnvoyId;
    use holdfast_xds::limits::SILENCE_MAX;

    use super::*;

    fn envoy() -> EnvoyId {
        EnvoyId { fleet: "infra/public".into(), node: "one".into(), build: "".into() }
    }

    fn found(since: i64, is_connected: bool, is_silent: bool) -> NotAnsweringByGateway {
        let envoy = NotAnswering { since: Moment(since), is_connected, is_silent };
        [("infra/public".into(), [("one".into(), envoy)].into())].into()
    }

    /// Looks at times in seconds after the start, which is second 1000.
    struct Looks(Silence, Instant);

    impl Looks {
        fn at(&mut self, seconds: u64, unanswered: Vec<Unanswered>, silent: Vec<SilentEnvoy>) -> NotAnsweringByGateway {
            let instant = self.1 + Duration::from_secs(seconds);
            let before = self.0.seen().clone();
            let moment = Moment(1000 + i64::try_from(seconds).unwrap());
            let has_changed = self.0.look(unanswered, silent, LookTime { instant, moment });
            assert_eq!(has_changed, before != *self.0.seen());
            self.0.seen().clone()
        }
    }

    #[test]
    fn a_response_that_is_answered_in_time_is_not_reported() {
        let sent = |nonce| vec![Unanswered { envoy: envoy(), stream: 1, nonce }];
        let mut looks = Looks(Silence::default(), Instant::now());
        let none = NotAnsweringByGateway::new();
        assert_eq!(looks.at(0, sent(1), vec![]), none);
        assert_eq!(looks.at(5, sent(2), vec![]), none, "the first one is answered");
        assert_eq!(looks.at(10, sent(2), vec![]), found(1005, true, false));
        assert_eq!(looks.at(15, vec![], vec![]), none);
    }

    #[test]
    fn an_envoy_is_silent_since_its_last_bytes_also_if_responses_are_unanswered() {
        let sent = || vec![Unanswered { envoy: envoy(), stream: 1, nonce: 1 }];
        let silent = |quiet, connected| vec![SilentEnvoy { envoy: envoy(), quiet, connected }];
        let mut looks = Looks(Silence::default(), Instant::now());
        looks.at(0, sent(), vec![]);
        assert_eq!(looks.at(5, sent(), vec![]), found(1000, true, false));
        assert_eq!(looks.at(8, sent(), silent(SILENCE_MAX, true)), found(1000, true, true));
        let rounded = Duration::from_millis(9_999);
        assert_eq!(looks.at(11, vec![], silent(rounded, false)), found(1000, false, true), "the date stays");
        assert_eq!(looks.at(12, vec![], vec![]), NotAnsweringByGateway::new());
        assert_eq!(looks.at(20, vec![], silent(SILENCE_MAX, false)), found(1012, false, true));
    }
}
