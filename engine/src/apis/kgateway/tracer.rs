//! What ListenerPolicies say about tracing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::records::GrpcService;
use super::traffic::Attribute;

/// Where requests are traced.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tracing {
    /// What is recorded besides.
    pub attributes: Option<Vec<Attribute>>,
    /// The share of requests for which clients ask, in percent.
    pub client_sampling: Option<i64>,
    /// The longest path that is recorded.
    pub max_path_tag_length: Option<i64>,
    /// The most of all, in percent.
    pub overall_sampling: Option<i64>,
    /// Who is told.
    pub provider: Provider,
    /// The share of all other requests, in percent.
    pub random_sampling: Option<i64>,
    /// Is each request to a back end recorded apart?
    pub spawn_upstream_span: Option<bool>,
    /// Is more recorded?
    pub verbose: Option<bool>,
}

/// Who is told of traces.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    /// A collector of OpenTelemetry.
    pub open_telemetry: Option<OpenTelemetryTracing>,
}

/// A collector of OpenTelemetry.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTelemetryTracing {
    /// Who it is.
    pub grpc_service: GrpcService,
    /// Where attributes of this Envoy come from.
    pub resource_detectors: Option<Vec<ResourceDetector>>,
    /// Which requests are recorded.
    pub sampler: Option<Sampler>,
    /// What this Envoy is called.
    pub service_name: Option<Arc<str>>,
}

/// Where attributes of this Envoy come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDetector {
    /// From its environment.
    pub environment_resource_detector: Option<EnvironmentDetector>,
}

/// Attributes from the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentDetector {
    /// Are they looked for?
    pub enable: Option<bool>,
}

/// Which requests are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sampler {
    /// All of them.
    pub always_on_config: Option<AlwaysOn>,
}

/// All requests are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AlwaysOn {}
