//! How policies have the health of endpoints looked after: checks, what they answer, and how much may be under way.

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

/// How endpoints are checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checked {
    /// What they are asked.
    pub asked: Question,
    /// Time between two checks.
    pub interval: Duration,
    /// Time that an answer may take.
    pub timeout: Duration,
    /// So many failures make one unhealthy.
    pub unhealthy: u32,
    /// So many successes make one healthy again.
    pub healthy: u32,
    /// Are they asked in HTTP/2?
    pub h2: bool,
}

/// What endpoints are asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// Over HTTP.
    Http {
        /// The path.
        path: Arc<str>,
        /// The host; the name of the cluster where empty.
        host: Arc<str>,
        /// The method; `GET` where empty.
        method: Arc<str>,
    },
    /// By gRPC's own question.
    Grpc {
        /// The service.
        service: Arc<str>,
        /// The host; the name of the cluster where empty.
        authority: Arc<str>,
    },
}

/// When endpoints are left out for what they answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outliers {
    /// Time between two looks.
    pub interval: Duration,
    /// How long one is left out, times how often it was.
    pub ejection: Duration,
    /// The largest share that is left out, in percent.
    pub most: u32,
    /// Answers of 5xx in a row.
    pub errors: u32,
    /// How often that counts, in percent.
    pub enforcing: Option<u32>,
    /// Are failures to get an answer counted apart?
    pub split: bool,
    /// Such failures in a row.
    pub local: Option<u32>,
    /// How often that counts, in percent.
    pub enforcing_local: Option<u32>,
}

/// How much may be under way; what is usual where unset.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Breakers {
    /// Connections.
    pub connections: Option<u32>,
    /// Requests that wait for a connection.
    pub pending: Option<u32>,
    /// Requests.
    pub requests: Option<u32>,
    /// Requests that are tried again.
    pub retries: Option<u32>,
    /// Is it counted how much is left?
    pub track: bool,
}

fn count(value: u32) -> Option<UInt32Value> {
    Some(UInt32Value { value })
}

impl Checked {
    pub(super) fn encode(&self) -> EnvoyHealthCheck {
        let checker = match &self.asked {
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
