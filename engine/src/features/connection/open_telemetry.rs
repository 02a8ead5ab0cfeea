//! A log at a collector of OpenTelemetry.

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::access_loggers::open_telemetry::v3::OpenTelemetryAccessLogConfig;
use envoy_types::pb::opentelemetry::proto::common::v1::any_value::Value as EnvoyValue;
use envoy_types::pb::opentelemetry::proto::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};

use super::collector::Collector;

/// Values of one list of a log.
pub const VALUES_MAX: usize = 64;
/// How deep values may be nested.
pub const DEPTH_MAX: usize = 4;

/// The attribute that says what an Envoy is called.
const SERVICE_NAME: &str = "service.name";

/// A log.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenTelemetryLog {
    /// What the log is called.
    pub name: Arc<str>,
    /// Who it is.
    pub collector: Collector,
    /// The line.
    pub body: Option<Arc<str>>,
    /// Are Envoy's own labels left out?
    pub without_labels: bool,
    /// What is told of each request.
    pub attributes: Vec<(Arc<str>, Value)>,
    /// What is told of this Envoy.
    pub resource: Vec<(Arc<str>, Value)>,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text with Envoy's commands.
    Text(Arc<str>),
    /// Several.
    List(Vec<Value>),
    /// Several by key.
    Map(Vec<(Arc<str>, Value)>),
}

impl OpenTelemetryLog {
    /// Envoy's form; `service` is what the Envoy is called where nothing is said.
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
