//! Responses that were sent and not answered yet.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::due::LastSent;
use crate::{Resource, Version};

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
    /// The resource that was sent.
    pub(crate) resource: Option<Arc<Resource>>,
    /// Whether the answer shows what the client has: it has not forgotten the name, nor answered a newer response.
    pub(crate) is_current: bool,
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
pub(crate) struct Flights {
    all: VecDeque<UnansweredResponse>,
    /// The number of unanswered responses with each name.
    names: BTreeMap<Arc<str>, usize>,
}

impl Flights {
    pub(crate) fn push(&mut self, flight: UnansweredResponse) {
        for item in &flight.items {
            *self.names.entry(item.name.clone()).or_default() += 1;
        }
        self.all.push_back(flight);
    }

    /// Removes and returns the response that is answered; `None` for a nonce that is stale or unknown.
    pub(crate) fn land(&mut self, nonce: &str) -> Option<UnansweredResponse> {
        let nonce = nonce.parse::<u64>().ok()?;
        let at = self.all.iter().position(|flight| flight.nonce == nonce)?;
        let flight = self.all.remove(at)?;
        for item in &flight.items {
            if let Some(count) = self.names.get_mut(&item.name) {
                *count -= 1;
                if *count == 0 {
                    self.names.remove(&item.name);
                }
            }
        }
        Some(flight)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns whether a name is in an unanswered response.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Records that the answers to responses with a name, older than `nonce`, do not show any more what the client has.
    pub(crate) fn outdate(&mut self, name: &str, nonce: u64) {
        if self.has(name) {
            let older = self.all.iter_mut().filter(|flight| flight.nonce < nonce);
            let items = older.flat_map(|flight| &mut flight.items).filter(|item| &*item.name == name);
            items.for_each(|item| item.is_current = false);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &UnansweredResponse> {
        self.all.iter()
    }

    /// Returns the nonce of the oldest response.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.all.front().map(|flight| flight.nonce)
    }

    /// Returns the snapshot since which the oldest unanswered addition or change was due.
    pub(crate) fn oldest_change(&self) -> Option<u64> {
        self.all.iter().filter_map(|flight| flight.changes_since).min()
    }

    /// Returns the snapshot since which the oldest unanswered removal was due.
    pub(crate) fn oldest_removal(&self) -> Option<u64> {
        self.all.iter().filter_map(|flight| flight.removals_since).min()
    }
}
