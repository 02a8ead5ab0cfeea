//! Tracing of requests.

use holdfast_api::apis::kgateway::tracer::Tracing as Written;
use holdfast_envoy::features::connection::tracer::Tracer;
use holdfast_envoy::features::percent::Percent;
use holdfast_envoy::features::tracing::TracingSettings;

use super::super::reading::Reading;
use super::super::shape;
use super::super::traffic::{number, percent};
use super::collectors;

/// Reads the settings of tracing; `None` without a usable collector.
pub(super) fn read(field: &str, written: &Written, reading: &mut Reading<'_, '_>) -> Option<Tracer> {
    let mut share = |below: &str, value: Option<i64>| {
        value.map(|value| percent(&format!("{field}.{below}"), Some(value), Percent::ALL, reading))
    };
    let tracing = TracingSettings {
        client: share("clientSampling", written.client_sampling),
        random: share("randomSampling", written.random_sampling),
        overall: share("overallSampling", written.overall_sampling),
        attributes: shape::attributes(field, written.attributes.as_deref(), reading),
    };
    let path_length =
        written.max_path_tag_length.map(|length| number(&format!("{field}.maxPathTagLength"), length, 1, reading));
    let Some(provider) = &written.provider.open_telemetry else {
        reading.invalid(format!("spec.{field}.provider"), "openTelemetry must be set");
        return None;
    };
    let field = format!("{field}.provider.openTelemetry");
    let detectors = provider.resource_detectors.iter().flatten();
    // The last detector applies. Envoy refuses one that finds no attributes in its environment.
    let mut environment = detectors.filter_map(|detector| detector.environment_resource_detector.as_ref());
    let environment = environment.next_back().is_some_and(|detector| detector.enable.unwrap_or(true));
    let collector = collectors::read(&format!("{field}.grpcService"), &provider.grpc_service, reading)?;
    Some(Tracer {
        collector,
        service: provider.service_name.clone().filter(|name| !name.is_empty()),
        environment,
        always: provider.sampler.as_ref().is_some_and(|sampler| sampler.always_on_config.is_some()),
        tracing,
        verbose: written.verbose.unwrap_or(false),
        path_length,
        upstream_span: written.spawn_upstream_span,
    })
}
