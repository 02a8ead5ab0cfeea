//! Envoys that are connected and do not answer: a process that is frozen, or a host that is cut off, keeps its stream open
//! and takes nothing that it is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_xds::Unanswered;

/// How long a response may be unanswered before its Envoy is reported. Envoy answers within milliseconds.
pub(crate) const UNANSWERED_MAX: Duration = Duration::from_secs(5);

/// By Gateway (`namespace/name`) the nodes of Envoys that do not answer.
pub(crate) type NotAnswering = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

/// Since when the oldest response of each stream is unanswered.
#[derive(Debug, Default)]
pub(super) struct Responses {
    since: BTreeMap<(u64, u64), Instant>,
}

impl Responses {
    /// Takes in what is unanswered now; the Envoys of which a response has been for too long.
    pub(super) fn look(&mut self, unanswered: Vec<Unanswered>, now: Instant) -> NotAnswering {
        let mut since = BTreeMap::new();
        let mut silent = NotAnswering::new();
        for Unanswered { envoy, stream, nonce } in unanswered {
            let began = self.since.get(&(stream, nonce)).copied().unwrap_or(now);
            since.insert((stream, nonce), began);
            if now.duration_since(began) >= UNANSWERED_MAX {
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
        let (mut responses, start) = (Responses::default(), Instant::now());
        assert_eq!(responses.look(sent(1), start), NotAnswering::new());
        assert_eq!(responses.look(sent(2), start + UNANSWERED_MAX), NotAnswering::new(), "the first one is answered");
        let silent = NotAnswering::from([("infra/public".into(), BTreeSet::from(["one".into()]))]);
        assert_eq!(responses.look(sent(2), start + UNANSWERED_MAX * 2), silent);
        assert_eq!(responses.look(Vec::new(), start + UNANSWERED_MAX * 3), NotAnswering::new());
    }
}
