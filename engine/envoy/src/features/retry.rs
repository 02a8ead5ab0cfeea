//! Retries of requests.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::route::v3::RetryPolicy;
use envoy_types::pb::envoy::config::route::v3::retry_policy::RetryBackOff;
use envoy_types::pb::google::protobuf::UInt32Value;

use crate::encode::duration;

/// A retry policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRetryPolicy {
    /// Maximum number of retries.
    pub count: u32,
    /// The retry conditions, in Envoy's syntax.
    pub on: Arc<str>,
    /// Response statuses that are retried.
    pub statuses: Vec<u32>,
    /// Timeout of one try.
    pub per_try: Option<Duration>,
    /// Base interval between retries; Envoy's default where unset.
    pub pause: Option<Duration>,
}

impl RouteRetryPolicy {
    /// Returns the Envoy configuration.
    pub fn encode(&self) -> RetryPolicy {
        RetryPolicy {
            retry_on: self.on.to_string(),
            num_retries: Some(UInt32Value { value: self.count }),
            per_try_timeout: self.per_try.map(duration),
            retriable_status_codes: self.statuses.clone(),
            retry_back_off: self
                .pause
                .map(|pause| RetryBackOff { base_interval: Some(duration(pause)), max_interval: None }),
            ..Default::default()
        }
    }
}
