//! How often requests may come to one Envoy.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::RuntimeFractionalPercent;
use envoy_types::pb::envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit as Envoy;
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;
use envoy_types::pb::envoy::r#type::v3::{FractionalPercent, HttpStatus, TokenBucket};
use envoy_types::pb::google::protobuf::UInt32Value;

use super::headers::HeaderEdits;
use crate::encode::duration;

/// The name of the filter, in the filter chain and as the key of per-route settings.
pub(crate) const FILTER: &str = "envoy.filters.http.local_ratelimit";
/// What its statistics begin with.
const STAT_PREFIX: &str = "http";

/// A limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalRateLimit {
    /// Requests for each unit of time, at least one.
    pub requests: u32,
    /// The unit of time.
    pub unit: Duration,
    /// Requests above that, for a short time.
    pub burst: u32,
    /// The status of requests over the limit.
    pub status: u16,
    /// Changes to responses to requests over the limit.
    pub headers: HeaderEdits,
}

impl LocalRateLimit {
    /// Envoy's form.
    pub(crate) fn encode(&self) -> Envoy {
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

    /// The filter itself, which limits nothing where a route says nothing.
    pub(crate) fn filter() -> Envoy {
        Envoy { stat_prefix: STAT_PREFIX.into(), ..Default::default() }
    }
}
