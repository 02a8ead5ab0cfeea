//! Timeouts of requests.

use std::time::Duration;

/// Timeouts of a route; `None` and zero mean no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteTimeouts {
    /// Timeout of the whole request, retries included.
    pub request: Option<Duration>,
    /// Timeout of one try at a backend.
    pub backend_request: Option<Duration>,
    /// Idle timeout of a stream; the default where unset, none where zero.
    pub idle: Option<Duration>,
}

impl RouteTimeouts {
    /// Returns whether the timeout of one try exceeds that of the whole request, which Gateway API forbids.
    pub fn contradict(&self) -> bool {
        let set = |limit: Option<Duration>| limit.filter(|limit| !limit.is_zero());
        matches!((set(self.request), set(self.backend_request)), (Some(all), Some(one)) if one > all)
    }
}
