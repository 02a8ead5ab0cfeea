//! Detection of connected Envoys that do not answer: a frozen process, or a host without network, keeps its stream open
//! and accepts no response.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_xds::Unanswered;

/// How long a response may be unanswered before its Envoy is reported. Envoy normally answers within milliseconds.
pub(crate) const UNANSWERED_TIME_MAX: Duration = Duration::from_secs(5);

/// The nodes of Envoys that do not answer, by Gateway (`namespace/name`).
pub(crate) type NotAnswering = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

/// Since when the oldest response of each stream is unanswered.
#[derive(Debug, Default)]
pub(super) struct UnansweredResponses {
    since: BTreeMap<(u64, u64), Instant>,
}

impl UnansweredResponses {
    /// Records the unanswered responses; returns the Envoys with one that is too old.
    pub(super) fn look(&mut self, unanswered: Vec<Unanswered>, now: Instant) -> NotAnswering {
        let mut since = BTreeMap::new();
        let mut silent = NotAnswering::new();
        for Unanswered { envoy, stream, nonce } in unanswered {
            let began = self.since.get(&(stream, nonce)).copied().unwrap_or(now);
            since.insert((stream, nonce), began);
            if now.duration_since(began) >= UNANSWERED_TIME_MAX {
                silent.entry(envoy.fleet).or_default().insert(envoy.node);
            }
        }
        self.since = since;
        silent
    }
}

#[cfg(test)]
mod tests {
    use holdfast_xds::EnvoyId;

    use super::*;

    #[test]
    fn a_response_that_is_answered_in_time_is_not_reported() {
        let envoy = EnvoyId { fleet: "infra/public".into(), node: "one".into(), build: "".into() };
        let sent = |nonce| vec![Unanswered { envoy: envoy.clone(), stream: 1, nonce }];
        let (mut responses, start) = (UnansweredResponses::default(), Instant::now());
        assert_eq!(responses.look(sent(1), start), NotAnswering::new());
        assert_eq!(
            responses.look(sent(2), start + UNANSWERED_TIME_MAX),
            NotAnswering::new(),
            "the first one is answered"
        );
        let silent = NotAnswering::from([("infra/public".into(), BTreeSet::from(["one".into()]))]);
        assert_eq!(responses.look(sent(2), start + UNANSWERED_TIME_MAX * 2), silent);
        assert_eq!(responses.look(Vec::new(), start + UNANSWERED_TIME_MAX * 3), NotAnswering::new());
    }
}
