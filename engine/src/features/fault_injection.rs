//! Requests that are delayed or fail on purpose.

use std::time::Duration;

use envoy_types::pb::envoy::extensions::filters::common::fault::v3::fault_delay::FaultDelaySecifier;
use envoy_types::pb::envoy::extensions::filters::common::fault::v3::fault_rate_limit::{FixedLimit, LimitType};
use envoy_types::pb::envoy::extensions::filters::common::fault::v3::{FaultDelay, FaultRateLimit};
use envoy_types::pb::envoy::extensions::filters::http::fault::v3::fault_abort::ErrorType;
use envoy_types::pb::envoy::extensions::filters::http::fault::v3::{FaultAbort, HttpFault};
use envoy_types::pb::google::protobuf::UInt32Value;

use super::percent::Percent;
use crate::encode::duration;

/// What goes wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultInjection {
    /// Some requests wait.
    pub delay: Option<(Duration, Percent)>,
    /// Some fail.
    pub abort: Option<(Abort, Percent)>,
    /// Some answers are slow: kibit each second.
    pub rate: Option<(u64, Percent)>,
    /// The most that are under way at a time.
    pub active: Option<u32>,
}

/// How a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// With this status.
    Http(u16),
    /// With this status of gRPC.
    Grpc(u32),
}

impl FaultInjection {
    /// Envoy's form.
    pub(crate) fn encode(&self) -> HttpFault {
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

    /// The filter itself, which does nothing.
    pub(crate) fn in_chain() -> HttpFault {
        HttpFault::default()
    }
}
