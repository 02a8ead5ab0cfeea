//! Whom Envoy tells of requests, over gRPC.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::grpc_service::TargetSpecifier;
use envoy_types::pb::envoy::config::core::v3::{BackoffStrategy, GrpcService, HeaderValue, RetryPolicy};
use envoy_types::pb::google::protobuf::UInt32Value;

use crate::encode::duration;
use crate::features::remote::Remote;

/// Headers that a collector is told at the beginning.
pub const METADATA_MAX: usize = 16;

/// A collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Who it is.
    pub remote: Remote,
    /// The host that it is asked for; its own name where unset.
    pub authority: Option<Arc<str>>,
    /// What it is told at the beginning.
    pub metadata: Vec<(Arc<str>, Arc<str>)>,
    /// Its largest message, in bytes.
    pub message_bytes: Option<u32>,
    /// How often it is asked again, and the times between: shortest and longest.
    pub retry: Option<Retry>,
    /// Are Envoy's own headers left out?
    pub without_envoy_headers: bool,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

/// When a collector is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often.
    pub times: Option<u32>,
    /// The shortest and the longest time between.
    pub between: Option<(Duration, Option<Duration>)>,
}

impl Collector {
    /// Envoy's form.
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
