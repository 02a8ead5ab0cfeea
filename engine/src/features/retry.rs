//! Trying a request again.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::route::v3::RetryPolicy;
use envoy_types::pb::envoy::config::route::v3::retry_policy::RetryBackOff;
use envoy_types::pb::google::protobuf::UInt32Value;

use crate::encode::duration;

/// When a request is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often.
    pub count: u32,
    /// On what, as Envoy has it.
    pub on: Arc<str>,
    /// Statuses on which it is tried again.
    pub statuses: Vec<u32>,
    /// Time limit of one try.
    pub per_try: Option<Duration>,
    /// The first pause; Envoy's own where unset.
    pub pause: Option<Duration>,
}

impl Retry {
    /// Envoy's form.
    pub(crate) fn encode(&self) -> RetryPolicy {
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
