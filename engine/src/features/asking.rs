//! How services are asked, beside where they are: by which host name, and whether again where there was no answer.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::grpc_service::TargetSpecifier;
use envoy_types::pb::envoy::config::core::v3::{BackoffStrategy, GrpcService, RetryPolicy};
use envoy_types::pb::google::protobuf::UInt32Value;

use super::remote::Remote;
use crate::encode::duration;

/// How often something may be asked again.
pub const ATTEMPTS_MAX: u32 = 1000;
/// On what a service of HTTP is asked again.
pub(crate) const HTTP_FAILURES: &str = "5xx,connect-failure,refused-stream,reset";
/// The same of gRPC.
const GRPC_FAILURES: &str = "connect-failure,refused-stream,reset,unavailable";

/// How a service is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asking {
    /// The host that it is told; its own name where unset.
    pub authority: Option<Arc<str>>,
    /// When it is asked again; never where unset.
    pub again: Option<Again>,
}

/// When something is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Again {
    /// How often.
    pub count: u32,
    /// The first pause and the longest; Envoy's own where unset: a second, and ten times the first.
    pub pauses: Option<(Duration, Option<Duration>)>,
}

impl Asking {
    /// Envoy's form of a service of gRPC, with the time that an answer may take.
    pub(crate) fn grpc(&self, remote: &Remote, timeout: Option<Duration>) -> GrpcService {
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

impl Again {
    /// Envoy's form, for these failures.
    pub(crate) fn encode(self, on: &str) -> RetryPolicy {
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
