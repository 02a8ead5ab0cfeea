//! Fault injection: delays and failures of requests on purpose.

use std::time::Duration;

use envoy_types::pb::envoy::extensions::filters::common::fault::v3::fault_delay::FaultDelaySecifier;
use envoy_types::pb::envoy::extensions::filters::common::fault::v3::fault_rate_limit::{FixedLimit, LimitType};
use envoy_types::pb::envoy::extensions::filters::common::fault::v3::{FaultDelay, FaultRateLimit};
use envoy_types::pb::envoy::extensions::filters::http::fault::v3::fault_abort::ErrorType;
use envoy_types::pb::envoy::extensions::filters::http::fault::v3::{FaultAbort, HttpFault};
use envoy_types::pb::google::protobuf::UInt32Value;

use super::percent::Percent;
use crate::encode::duration;

/// A fault injection policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultInjectionPolicy {
    /// The delay of requests, and the share of requests that are delayed.
    pub delay: Option<(Duration, Percent)>,
    /// The failure of requests, and the share of requests that fail.
    pub abort: Option<(Abort, Percent)>,
    /// The rate limit of responses in KiB/s, and the share of requests it applies to.
    pub rate: Option<(u64, Percent)>,
    /// Maximum number of faults that are active at a time.
    pub active: Option<u32>,
}

/// The failure of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// An HTTP status.
    Http(u16),
    /// A gRPC status.
    Grpc(u32),
}

impl FaultInjectionPolicy {
    /// Returns the Envoy configuration.
    pub fn encode(&self) -> HttpFault {
        HttpFault {
            delay: self.delay.map(|(delay, share)| FaultDelay {
                percentage: Some(share.encode()),
                fault_delay_secifier: Some(FaultDelaySecifier::FixedDelay(duration(delay))),
            }),
            abort: self.abort.map(|(abort, share)| FaultAbort {
                percentage: Some(share.encode()),
                error_type: Some(match abort {
                    Abort::Http(status) => ErrorType::HttpStatus(status.into()),
                    Abort::Grpc(status) => ErrorType::GrpcStatus(status),
                }),
                ..Default::default()
            }),
            response_rate_limit: self.rate.map(|(limit_kbps, share)| FaultRateLimit {
                percentage: Some(share.encode()),
                limit_type: Some(LimitType::FixedLimit(FixedLimit { limit_kbps })),
            }),
            max_active_faults: self.active.map(|value| UInt32Value { value }),
            ..Default::default()
        }
    }

    /// Returns the configuration of the filter in the chain, which injects no faults.
    pub(crate) fn in_chain() -> HttpFault {
        HttpFault::default()
    }
}
