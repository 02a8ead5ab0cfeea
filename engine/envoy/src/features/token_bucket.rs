//! Local rate limits by token bucket: the rate of requests to one Envoy; each request takes one token.

use std::time::Duration;

use envoy_types::pb::envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit as Envoy;
use envoy_types::pb::envoy::r#type::v3::TokenBucket as EnvoyBucket;
use envoy_types::pb::google::protobuf::UInt32Value;

use super::percent::{Percent, runtime};
use crate::encode::duration;

/// Prefix of the filter's statistics.
const STAT_PREFIX: &str = "http";
/// The shortest fill interval that Envoy accepts.
pub const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// A token bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucketSettings {
    /// Maximum number of tokens; at least one.
    pub most: u32,
    /// Number of tokens that each fill adds; at least one.
    pub fill: u32,
    /// The fill interval.
    pub interval: Duration,
    /// The share of requests that are counted.
    pub enabled: Percent,
    /// The share of requests over the limit that are refused.
    pub enforced: Percent,
}

impl TokenBucketSettings {
    /// Returns the per-route configuration.
    pub fn encode(&self) -> Envoy {
        Envoy {
            stat_prefix: STAT_PREFIX.into(),
            token_bucket: Some(EnvoyBucket {
                max_tokens: self.most,
                tokens_per_fill: Some(UInt32Value { value: self.fill }),
                fill_interval: Some(duration(self.interval)),
            }),
            filter_enabled: Some(runtime(self.enabled)),
            filter_enforced: Some(runtime(self.enforced)),
            ..Default::default()
        }
    }
}
