//! How long a request may take.

use std::time::Duration;

/// Time limits of a route; `None` is no limit, and so is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// For the whole request, retries included.
    pub request: Option<Duration>,
    /// For one try at a back end.
    pub backend_request: Option<Duration>,
    /// For a stream on which nothing happens: as everywhere where unset, none where zero.
    pub idle: Option<Duration>,
}

impl Timeouts {
    /// Is the limit for one try above that for all of them? Gateway API forbids it.
    pub fn contradict(&self) -> bool {
        let set = |limit: Option<Duration>| limit.filter(|limit| !limit.is_zero());
        matches!((set(self.request), set(self.backend_request)), (Some(all), Some(one)) if one > all)
    }
}
