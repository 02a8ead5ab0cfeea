//! Tracing fields of ListenerPolicies.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::records::CollectorGrpcService;
use super::traffic::Attribute;

/// Tracing of requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tracing {
    /// Additional attributes of spans.
    pub attributes: Option<Vec<Attribute>>,
    /// Percentage of the requests with a client's demand for tracing that are traced.
    pub client_sampling: Option<i64>,
    /// Maximum length of a path in a span.
    pub max_path_tag_length: Option<i64>,
    /// Maximum percentage of all requests that are traced.
    pub overall_sampling: Option<i64>,
    /// Receiver of the spans.
    pub provider: TracingProvider,
    /// Percentage of all other requests that are traced.
    pub random_sampling: Option<i64>,
    /// Whether each request to a backend gets a span of its own.
    pub spawn_upstream_span: Option<bool>,
    /// Whether spans have additional events.
    pub verbose: Option<bool>,
}

/// Receiver of spans.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TracingProvider {
    /// An OpenTelemetry collector.
    pub open_telemetry: Option<OpenTelemetryTracing>,
}

/// An OpenTelemetry collector for spans.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTelemetryTracing {
    /// The collector.
    pub grpc_service: CollectorGrpcService,
    /// Sources of the attributes of the Envoy.
    pub resource_detectors: Option<Vec<ResourceDetector>>,
    /// Sampler of the requests.
    pub sampler: Option<Sampler>,
    /// Service name of the Envoy in spans.
    pub service_name: Option<Arc<str>>,
}

/// A source of attributes of the Envoy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDetector {
    /// The environment variables of the Envoy.
    pub environment_resource_detector: Option<EnvironmentDetector>,
}

/// Attributes from environment variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentDetector {
    /// Whether the source is used.
    pub enable: Option<bool>,
}

/// A sampler of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sampler {
    /// All requests are sampled.
    pub always_on_config: Option<AlwaysOn>,
}

/// A sampler of all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AlwaysOn {}
