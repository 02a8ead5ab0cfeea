//! Tracing with an OpenTelemetry collector.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::config::trace::v3::OpenTelemetryConfig;
use envoy_types::pb::envoy::config::trace::v3::tracing::Http;
use envoy_types::pb::envoy::config::trace::v3::tracing::http::ConfigType;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::Tracing as Envoy;
use envoy_types::pb::envoy::extensions::tracers::opentelemetry::resource_detectors::v3::EnvironmentResourceDetectorConfig;
use envoy_types::pb::envoy::extensions::tracers::opentelemetry::samplers::v3::AlwaysOnSamplerConfig;
use envoy_types::pb::envoy::r#type::v3::Percent as EnvoyPercent;
use envoy_types::pb::google::protobuf::{BoolValue, UInt32Value};
use prost::Message;

use super::collector::Collector;
use crate::encode::any;
use crate::features::percent::Percent;
use crate::features::tracing::TracingSettings;

/// A tracer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracer {
    /// The collector.
    pub collector: Collector,
    /// The service name.
    pub service: Option<Arc<str>>,
    /// Whether resource attributes are read from Envoy's environment.
    pub environment: bool,
    /// Whether all requests are recorded, regardless of the decision of callers.
    pub always: bool,
    /// Sampling and attributes.
    pub tracing: TracingSettings,
    /// Whether spans contain verbose annotations.
    pub verbose: bool,
    /// Maximum length of a recorded path.
    pub path_length: Option<u32>,
    /// Whether each request to a backend has a span of its own.
    pub upstream_span: Option<bool>,
}

impl Tracer {
    /// Encodes the tracer as a fragment to append to an encoded connection manager.
    pub(super) fn encode(&self, service: &str) -> Vec<u8> {
        let extension = |name: &str, config| TypedExtensionConfig { name: name.into(), typed_config: Some(config) };
        let provider = OpenTelemetryConfig {
            grpc_service: Some(self.collector.encode()),
            service_name: self.service.as_deref().unwrap_or(service).to_owned(),
            resource_detectors: self
                .environment
                .then(|| {
                    let config = any(&EnvironmentResourceDetectorConfig::default());
                    extension("envoy.tracers.opentelemetry.resource_detectors.environment", config)
                })
                .into_iter()
                .collect(),
            sampler: self.always.then(|| {
                extension("envoy.tracers.opentelemetry.samplers.always_on", any(&AlwaysOnSamplerConfig::default()))
            }),
            ..Default::default()
        };
        let share = |share: Option<Percent>| share.map(|share| EnvoyPercent { value: share.encode().numerator.into() });
        let tracing = Envoy {
            client_sampling: share(self.tracing.client),
            random_sampling: share(self.tracing.random),
            overall_sampling: share(self.tracing.overall),
            verbose: self.verbose,
            max_path_tag_length: self.path_length.map(|value| UInt32Value { value }),
            custom_tags: self.tracing.encode().custom_tags,
            provider: Some(Http {
                name: "envoy.tracers.opentelemetry".into(),
                config_type: Some(ConfigType::TypedConfig(any(&provider))),
            }),
            spawn_upstream_span: self.upstream_span.map(|value| BoolValue { value }),
            ..Default::default()
        };
        HttpConnectionManager { tracing: Some(tracing), ..Default::default() }.encode_to_vec()
    }
}
