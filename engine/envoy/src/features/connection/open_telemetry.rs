//! Access logs to an OpenTelemetry collector.

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::access_loggers::open_telemetry::v3::OpenTelemetryAccessLogConfig;
use envoy_types::pb::opentelemetry::proto::common::v1::any_value::Value as EnvoyValue;
use envoy_types::pb::opentelemetry::proto::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};

use super::collector::Collector;

/// Maximum number of values in one list of a log.
pub const VALUES_MAX: usize = 64;
/// Maximum nesting depth of values.
pub const DEPTH_MAX: usize = 4;

/// The resource attribute that contains the service name.
const SERVICE_NAME: &str = "service.name";

/// An OpenTelemetry access log.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenTelemetryLogger {
    /// The name of the log.
    pub name: Arc<str>,
    /// The collector.
    pub collector: Collector,
    /// The body of each log record.
    pub body: Option<Arc<str>>,
    /// Whether Envoy's built-in labels are omitted.
    pub without_labels: bool,
    /// Attributes of each log record.
    pub attributes: Vec<(Arc<str>, Value)>,
    /// Attributes of the resource, which is the Envoy.
    pub resource: Vec<(Arc<str>, Value)>,
}

/// An attribute value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text with Envoy's command operators.
    Text(Arc<str>),
    /// A list of values.
    List(Vec<Value>),
    /// Values by key.
    Map(Vec<(Arc<str>, Value)>),
}

impl OpenTelemetryLogger {
    /// Returns the Envoy configuration; `service` is the default service name.
    pub(super) fn encode(&self, service: &str) -> OpenTelemetryAccessLogConfig {
        let named = self.resource.iter().any(|(key, _)| &**key == SERVICE_NAME);
        let own = (!named && !service.is_empty()).then(|| (SERVICE_NAME.into(), Value::Text(service.into())));
        let resource: Vec<_> = self.resource.iter().cloned().chain(own).collect();
        OpenTelemetryAccessLogConfig {
            log_name: self.name.to_string(),
            grpc_service: Some(self.collector.encode()),
            disable_builtin_labels: self.without_labels,
            resource_attributes: (!resource.is_empty()).then(|| list(&resource)),
            body: self.body.clone().map(|body| Value::Text(body).encode()),
            attributes: (!self.attributes.is_empty()).then(|| list(&self.attributes)),
            ..Default::default()
        }
    }
}

fn list(values: &[(Arc<str>, Value)]) -> KeyValueList {
    let value = |(key, value): &(Arc<str>, Value)| KeyValue {
        key: key.to_string(),
        value: Some(value.encode()),
        ..Default::default()
    };
    KeyValueList { values: values.iter().map(value).collect() }
}

impl Value {
    fn encode(&self) -> AnyValue {
        let value = match self {
            Value::Text(text) => EnvoyValue::StringValue(text.to_string()),
            Value::List(values) => {
                EnvoyValue::ArrayValue(ArrayValue { values: values.iter().map(Value::encode).collect() })
            }
            Value::Map(values) => EnvoyValue::KvlistValue(list(values)),
        };
        AnyValue { value: Some(value) }
    }
}
