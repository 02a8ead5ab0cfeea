//! Responses that were sent and not answered yet.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::Version;
use crate::due::LastSent;

/// One unanswered response.
#[derive(Debug)]
pub(crate) struct UnansweredResponse {
    pub(crate) nonce: u64,
    pub(crate) items: Vec<SentName>,
    /// The snapshot since which the oldest of its additions and changes was due, if it has any.
    pub(crate) changes_since: Option<u64>,
    /// The snapshot since which the oldest of its removals was due, if it has any.
    pub(crate) removals_since: Option<u64>,
}

/// One name in a response.
#[derive(Debug)]
pub(crate) struct SentName {
    pub(crate) name: Arc<str>,
    /// The version that was sent; `None` where the response reports that there is no such resource.
    pub(crate) version: Option<Version>,
    /// What was sent to the client before.
    pub(crate) before: LastSent,
}

impl UnansweredResponse {
    pub(crate) fn new(nonce: u64) -> Self {
        Self { nonce, items: Vec::new(), changes_since: None, removals_since: None }
    }

    /// Records an addition or change, or the report that a name does not exist.
    pub(crate) fn change(&mut self, item: SentName, since: u64) {
        self.items.push(item);
        self.changes_since = Some(self.changes_since.map_or(since, |oldest| oldest.min(since)));
    }

    /// Records a removal.
    pub(crate) fn removal(&mut self, item: SentName, since: u64) {
        self.items.push(item);
        self.removals_since = Some(self.removals_since.map_or(since, |oldest| oldest.min(since)));
    }

    /// Returns the number of resources in the response.
    pub(crate) fn resources(&self) -> usize {
        self.items.iter().filter(|item| item.version.is_some()).count()
    }
}

/// The unanswered responses of one type, in the order in which they were sent.
#[derive(Debug, Default)]
pub(crate) struct Flights(VecDeque<UnansweredResponse>);

impl Flights {
    pub(crate) fn push(&mut self, flight: UnansweredResponse) {
        self.0.push_back(flight);
    }

    /// Removes and returns the response that is answered; `None` for a nonce that is stale or unknown.
    pub(crate) fn land(&mut self, nonce: &str) -> Option<UnansweredResponse> {
        let nonce = nonce.parse::<u64>().ok()?;
        let at = self.0.iter().position(|flight| flight.nonce == nonce)?;
        self.0.remove(at)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &UnansweredResponse> {
        self.0.iter()
    }

    /// Returns the nonce of the oldest response.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.0.front().map(|flight| flight.nonce)
    }

    /// Returns the snapshot since which the oldest unanswered addition or change was due.
    pub(crate) fn oldest_change(&self) -> Option<u64> {
        self.0.iter().filter_map(|flight| flight.changes_since).min()
    }

    /// Returns the snapshot since which the oldest unanswered removal was due.
    pub(crate) fn oldest_removal(&self) -> Option<u64> {
        self.0.iter().filter_map(|flight| flight.removals_since).min()
    }
}
