//! Options of calls to external services, beside their address: authority and retries.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::grpc_service::TargetSpecifier;
use envoy_types::pb::envoy::config::core::v3::{BackoffStrategy, GrpcService, RetryPolicy};
use envoy_types::pb::google::protobuf::UInt32Value;

use super::remote::Remote;
use crate::encode::duration;

/// Maximum number of retries of one call.
pub const ATTEMPTS_MAX: u32 = 1000;
/// Envoy's `retry_on` conditions for calls over HTTP.
pub(crate) const HTTP_FAILURES: &str = "5xx,connect-failure,refused-stream,reset";
/// Envoy's `retry_on` conditions for calls over gRPC.
const GRPC_FAILURES: &str = "connect-failure,refused-stream,reset,unavailable";

/// Options of calls to an external service.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallOptions {
    /// The `:authority` of requests to the service; the service's own name where unset.
    pub authority: Option<Arc<str>>,
    /// The retry policy; no retries where unset.
    pub again: Option<CallRetryPolicy>,
}

/// The retry policy of calls to an external service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallRetryPolicy {
    /// Maximum number of retries.
    pub count: u32,
    /// The base and the maximum interval between retries; where unset, Envoy's own: 1 s, and ten times the base.
    pub pauses: Option<(Duration, Option<Duration>)>,
}

impl CallOptions {
    /// Returns Envoy's gRPC service with the given timeout.
    pub fn grpc(&self, remote: &Remote, timeout: Option<Duration>) -> GrpcService {
        let mut service = remote.grpc(timeout);
        if let (Some(authority), Some(TargetSpecifier::EnvoyGrpc(target))) =
            (&self.authority, &mut service.target_specifier)
        {
            target.authority = authority.to_string();
        }
        service.retry_policy = self.again.map(|again| again.encode(GRPC_FAILURES));
        service
    }
}

impl CallRetryPolicy {
    /// Returns Envoy's retry policy with the given `retry_on` conditions.
    pub fn encode(self, on: &str) -> RetryPolicy {
        RetryPolicy {
            num_retries: Some(UInt32Value { value: self.count }),
            retry_on: on.to_owned(),
            retry_back_off: self.pauses.map(|(first, longest)| BackoffStrategy {
                base_interval: Some(duration(first)),
                max_interval: longest.map(duration),
            }),
            ..Default::default()
        }
    }
}
