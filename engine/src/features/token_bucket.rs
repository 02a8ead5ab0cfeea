//! How often requests may come to one Envoy, in tokens of which each request takes one.

use std::time::Duration;

use envoy_types::pb::envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit as Envoy;
use envoy_types::pb::envoy::r#type::v3::TokenBucket as EnvoyBucket;
use envoy_types::pb::google::protobuf::UInt32Value;

use super::percent::{Percent, runtime};
use crate::encode::duration;

/// What the statistics begin with.
const STAT_PREFIX: &str = "http";
/// The shortest time between two fills that Envoy takes.
pub const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// A limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// The most tokens that there are, at least one.
    pub most: u32,
    /// How many come at a time, at least one.
    pub fill: u32,
    /// How often they come.
    pub interval: Duration,
    /// The share of requests that are counted.
    pub enabled: Percent,
    /// The share of those over the limit that are refused.
    pub enforced: Percent,
}

impl TokenBucket {
    /// Envoy's form.
    pub(crate) fn encode(&self) -> Envoy {
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
