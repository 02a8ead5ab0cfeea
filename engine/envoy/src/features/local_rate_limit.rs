//! Local rate limits of HTTPProxy: the rate of requests to one Envoy.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::RuntimeFractionalPercent;
use envoy_types::pb::envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit as Envoy;
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;
use envoy_types::pb::envoy::r#type::v3::{FractionalPercent, HttpStatus, TokenBucket};
use envoy_types::pb::google::protobuf::UInt32Value;

use super::headers::HeaderEdits;
use crate::encode::duration;

/// Name of the filter in the filter chain, and key of its per-route settings.
pub const FILTER: &str = "envoy.filters.http.local_ratelimit";
/// Prefix of the filter's statistics.
const STAT_PREFIX: &str = "http";

/// A local rate limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalLimit {
    /// Number of requests for each unit of time; at least one.
    pub requests: u32,
    /// The unit of time.
    pub unit: Duration,
    /// Number of additional requests in a burst.
    pub burst: u32,
    /// The response status of requests over the limit.
    pub status: u16,
    /// Changes to the headers of responses to requests over the limit.
    pub headers: HeaderEdits,
}

impl LocalLimit {
    /// Returns the per-route configuration.
    pub fn encode(&self) -> Envoy {
        let always = || {
            let denominator = DenominatorType::Hundred.into();
            let whole = FractionalPercent { numerator: 100, denominator };
            Some(RuntimeFractionalPercent { default_value: Some(whole), ..Default::default() })
        };
        Envoy {
            stat_prefix: STAT_PREFIX.into(),
            status: Some(HttpStatus { code: self.status.into() }),
            token_bucket: Some(TokenBucket {
                max_tokens: self.requests.saturating_add(self.burst),
                tokens_per_fill: Some(UInt32Value { value: self.requests }),
                fill_interval: Some(duration(self.unit)),
            }),
            filter_enabled: always(),
            filter_enforced: always(),
            response_headers_to_add: self.headers.to_add(),
            ..Default::default()
        }
    }

    /// Returns the configuration of the filter in the chain, which limits nothing without per-route settings.
    pub fn filter() -> Envoy {
        Envoy { stat_prefix: STAT_PREFIX.into(), ..Default::default() }
    }
}
