//! State of the sources of objects: written by the tasks that read them, read by health.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use holdfast_api::watch_problem::WatchProblem;

/// The state of an API server and of its watches. Folders of manifests have no state here.
#[derive(Debug, Default)]
pub struct Sources(Mutex<SourcesState>);

#[derive(Clone, Debug, Default)]
struct SourcesState {
    kubernetes: bool,
    kinds: Vec<WatchProblem>,
    failing: Option<String>,
    answered: Option<Instant>,
    changes: u64,
}

/// A snapshot of the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcesSnapshot {
    /// Whether the source is an API server.
    pub kubernetes: bool,
    /// Problems of watches.
    pub kinds: Vec<WatchProblem>,
    /// The reason why the API server does not answer.
    pub failing: Option<String>,
    /// Seconds since its last answer.
    pub seconds_ago: Option<u64>,
}

impl Sources {
    fn state(&self) -> MutexGuard<'_, SourcesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state for an API server that has not answered yet.
    pub fn of_kubernetes() -> Self {
        let failing = Some("it has not answered yet".to_owned());
        Self(Mutex::new(SourcesState { kubernetes: true, failing, ..SourcesState::default() }))
    }

    /// Sets all current problems of watches.
    pub fn kinds(&self, kinds: &[WatchProblem]) {
        let mut state = self.state();
        if state.kinds != kinds {
            state.kinds = kinds.to_vec();
            state.changes += 1;
        }
    }

    /// Records an answer of the API server.
    pub fn answered(&self) {
        let mut state = self.state();
        state.answered = Some(Instant::now());
        if state.failing.take().is_some() {
            state.changes += 1;
        }
    }

    /// Records that the API server did not answer, with the reason.
    pub fn failed(&self, why: String) {
        let mut state = self.state();
        if state.failing.as_ref() != Some(&why) {
            state.failing = Some(why);
            state.changes += 1;
        }
    }

    /// The number of changes that affect health.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// The current state.
    pub fn seen(&self) -> SourcesSnapshot {
        let SourcesState { kubernetes, kinds, failing, answered, .. } = self.state().clone();
        SourcesSnapshot { kubernetes, kinds, failing, seconds_ago: answered.map(|at| at.elapsed().as_secs()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_server_fails_until_it_answers_and_changes_are_counted_once() {
        let sources = Sources::of_kubernetes();
        assert!(sources.seen().failing.is_some() && sources.seen().seconds_ago.is_none());
        sources.answered();
        sources.answered();
        assert_eq!((sources.changes(), sources.seen().failing, sources.seen().seconds_ago), (1, None, Some(0)));
        sources.failed("refused".into());
        sources.failed("refused".into());
        assert_eq!((sources.changes(), sources.seen().failing), (2, Some("refused".into())));
        assert_eq!(sources.seen().seconds_ago, Some(0), "it did answer");
    }
}
