//! gRPC collectors that Envoy sends access logs and traces to.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::grpc_service::TargetSpecifier;
use envoy_types::pb::envoy::config::core::v3::{BackoffStrategy, GrpcService, HeaderValue, RetryPolicy};
use envoy_types::pb::google::protobuf::UInt32Value;

use crate::encode::duration;
use crate::features::remote::Remote;

/// Maximum number of initial metadata headers.
pub const METADATA_MAX: usize = 16;

/// A collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// The service that Envoy calls.
    pub remote: Remote,
    /// The `:authority` of requests; the service's own name where unset.
    pub authority: Option<Arc<str>>,
    /// Initial metadata of a stream.
    pub metadata: Vec<(Arc<str>, Arc<str>)>,
    /// Maximum size of a received message, in bytes.
    pub message_bytes: Option<u32>,
    /// The retry policy.
    pub retry: Option<CollectorRetry>,
    /// Whether Envoy's own headers are omitted.
    pub without_envoy_headers: bool,
    /// Timeout of a call.
    pub timeout: Option<Duration>,
}

/// The retry policy of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectorRetry {
    /// Maximum number of retries.
    pub times: Option<u32>,
    /// The base and the maximum interval between retries.
    pub between: Option<(Duration, Option<Duration>)>,
}

impl Collector {
    /// Returns Envoy's gRPC service.
    pub(super) fn encode(&self) -> GrpcService {
        let mut service = self.remote.grpc(self.timeout);
        if let Some(TargetSpecifier::EnvoyGrpc(envoy)) = &mut service.target_specifier {
            if let Some(authority) = &self.authority {
                envoy.authority = authority.to_string();
            }
            envoy.max_receive_message_length = self.message_bytes.map(|value| UInt32Value { value });
            envoy.skip_envoy_headers = self.without_envoy_headers;
        }
        let metadata = |(name, value): &(Arc<str>, Arc<str>)| HeaderValue {
            key: name.to_string(),
            value: value.to_string(),
            ..Default::default()
        };
        service.initial_metadata = self.metadata.iter().map(metadata).collect();
        service.retry_policy = self.retry.map(|retry| RetryPolicy {
            num_retries: retry.times.map(|value| UInt32Value { value }),
            retry_back_off: retry.between.map(|(shortest, longest)| BackoffStrategy {
                base_interval: Some(duration(shortest)),
                max_interval: longest.map(duration),
            }),
            ..Default::default()
        });
        service
    }
}
