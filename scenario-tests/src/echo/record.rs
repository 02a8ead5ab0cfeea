//! Requests that an echo server has recorded.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::answer::EchoAnswer;

/// Default limit in recorded requests.
pub const RECORDED_DEFAULT: usize = 1_000;

/// A request that reached an echo server, recorded before the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Number of the request on this server, from 1.
    pub number: u64,
    /// Whether the request was a gRPC call.
    pub grpc: bool,
    /// The request, as in the response.
    pub request: EchoAnswer,
}

/// The newest requests of a server, and the number of all requests.
#[derive(Debug)]
pub(super) struct Records {
    limit: usize,
    received: AtomicU64,
    newest: Mutex<VecDeque<Recorded>>,
}

impl Records {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, received: AtomicU64::new(0), newest: Mutex::new(VecDeque::new()) }
    }

    pub(super) fn add(&self, grpc: bool, request: &EchoAnswer) {
        let number = self.received.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if self.limit == 0 {
            return;
        }
        let mut newest = self.lock();
        while newest.len() >= self.limit {
            newest.pop_front();
        }
        newest.push_back(Recorded { number, grpc, request: request.clone() });
    }

    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(super) fn newest(&self) -> Vec<Recorded> {
        self.lock().iter().cloned().collect()
    }

    pub(super) fn count(&self, wanted: impl Fn(&Recorded) -> bool) -> usize {
        self.lock().iter().filter(|recorded| wanted(recorded)).count()
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// After a panic elsewhere the list is still a valid list of requests.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Recorded>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
