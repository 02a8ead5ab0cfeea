//! Signals that a story sends to containers while the node works.

use std::sync::{Arc, Mutex, PoisonError};

/// The name of a Pod, the name of its container, and the name of a signal without `SIG`.
type Sent = (String, String, &'static str);

/// Signals to containers that the node has not delivered yet; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Signals(Arc<Mutex<Vec<Sent>>>);

impl Signals {
    /// Sends a signal to a container of a Pod. If the container ends, the node starts it again.
    pub fn send(&self, pod: &str, container: &str, signal: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((pod.to_owned(), container.to_owned(), signal));
    }

    /// Returns the signals that have been sent since the last call.
    pub(super) fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
