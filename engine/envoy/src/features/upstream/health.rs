//! Endpoint health by policy: active health checks, outlier detection and circuit breakers.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3 as envoy;
use envoy_types::pb::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use envoy_types::pb::envoy::config::core::v3::HealthCheck as EnvoyHealthCheck;
use envoy_types::pb::envoy::config::core::v3::RequestMethod;
use envoy_types::pb::envoy::config::core::v3::health_check::{GrpcHealthCheck, HealthChecker, HttpHealthCheck};
use envoy_types::pb::envoy::r#type::v3::CodecClientType;
use envoy_types::pb::google::protobuf::UInt32Value;

use crate::encode::duration;

/// Active health checks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checked {
    /// The request of a check.
    pub request: Question,
    /// Interval between two checks.
    pub interval: Duration,
    /// Timeout of a check.
    pub timeout: Duration,
    /// Number of failures after which an endpoint is unhealthy.
    pub unhealthy: u32,
    /// Number of successes after which an endpoint is healthy again.
    pub healthy: u32,
    /// Whether HTTP checks use HTTP/2.
    pub h2: bool,
}

/// The request of a health check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// An HTTP request.
    Http {
        /// The path.
        path: Arc<str>,
        /// The host; the name of the cluster where empty.
        host: Arc<str>,
        /// The method; `GET` where empty.
        method: Arc<str>,
    },
    /// A call of the gRPC health checking protocol.
    Grpc {
        /// The service.
        service: Arc<str>,
        /// The host; the name of the cluster where empty.
        authority: Arc<str>,
    },
}

/// Outlier detection: endpoints are ejected because of failed requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outliers {
    /// Interval between two analyses.
    pub interval: Duration,
    /// Base ejection time, multiplied by the number of ejections of the endpoint.
    pub ejection: Duration,
    /// Maximum share of ejected endpoints, in percent.
    pub most: u32,
    /// Number of consecutive 5xx responses before ejection.
    pub errors: u32,
    /// Probability of that ejection, in percent.
    pub enforcing: Option<u32>,
    /// Whether local failures, without a response, are counted separately.
    pub split: bool,
    /// Number of consecutive local failures before ejection.
    pub local: Option<u32>,
    /// Probability of that ejection, in percent.
    pub enforcing_local: Option<u32>,
}

/// Circuit breakers; Envoy's defaults apply where unset.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Breakers {
    /// Maximum number of connections.
    pub connections: Option<u32>,
    /// Maximum number of requests that wait for a connection.
    pub pending: Option<u32>,
    /// Maximum number of active requests.
    pub requests: Option<u32>,
    /// Maximum number of active retries.
    pub retries: Option<u32>,
    /// Whether the remaining capacity is published as statistics.
    pub track: bool,
}

fn count(value: u32) -> Option<UInt32Value> {
    Some(UInt32Value { value })
}

impl Checked {
    pub(super) fn encode(&self) -> EnvoyHealthCheck {
        let checker = match &self.request {
            Question::Http { path, host, method } => HealthChecker::HttpHealthCheck(HttpHealthCheck {
                host: host.to_string(),
                path: path.to_string(),
                method: RequestMethod::from_str_name(method).unwrap_or_default().into(),
                codec_client_type: if self.h2 { CodecClientType::Http2.into() } else { CodecClientType::Http1.into() },
                ..Default::default()
            }),
            Question::Grpc { service, authority } => HealthChecker::GrpcHealthCheck(GrpcHealthCheck {
                service_name: service.to_string(),
                authority: authority.to_string(),
                ..Default::default()
            }),
        };
        EnvoyHealthCheck {
            timeout: Some(duration(self.timeout)),
            interval: Some(duration(self.interval)),
            unhealthy_threshold: count(self.unhealthy),
            healthy_threshold: count(self.healthy),
            health_checker: Some(checker),
            ..Default::default()
        }
    }
}

impl Outliers {
    pub(super) fn encode(&self) -> envoy::OutlierDetection {
        envoy::OutlierDetection {
            interval: Some(duration(self.interval)),
            base_ejection_time: Some(duration(self.ejection)),
            max_ejection_percent: count(self.most),
            consecutive_5xx: count(self.errors),
            enforcing_consecutive_5xx: self.enforcing.and_then(count),
            split_external_local_origin_errors: self.split,
            consecutive_local_origin_failure: self.local.and_then(count),
            enforcing_consecutive_local_origin_failure: self.enforcing_local.and_then(count),
            ..Default::default()
        }
    }
}

impl Breakers {
    pub(super) fn encode(&self) -> envoy::CircuitBreakers {
        let thresholds = Thresholds {
            max_connections: self.connections.and_then(count),
            max_pending_requests: self.pending.and_then(count),
            max_requests: self.requests.and_then(count),
            max_retries: self.retries.and_then(count),
            track_remaining: self.track,
            ..Default::default()
        };
        envoy::CircuitBreakers { thresholds: vec![thresholds], ..Default::default() }
    }
}
