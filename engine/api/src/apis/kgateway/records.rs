//! Access log fields of ListenerPolicies.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::log_filter::AccessLogFilter;
use crate::apis::gateway::references::BackendRef;

/// An access log.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLog {
    /// A file.
    pub file_sink: Option<FileSink>,
    /// Filter of the logged requests.
    pub filter: Option<AccessLogFilter>,
    /// A gRPC access log service.
    pub grpc_service: Option<LogService>,
    /// An OpenTelemetry collector.
    pub open_telemetry: Option<OpenTelemetryLog>,
}

/// A file that receives log lines.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileSink {
    /// Format of each line as a JSON object.
    pub json_format: Option<Map<String, Value>>,
    /// Path of the file.
    pub path: Arc<str>,
    /// Format of each line as text.
    pub string_format: Option<Arc<str>>,
}

/// A gRPC service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CollectorGrpcService {
    /// `:authority` of calls.
    pub authority: Option<Arc<str>>,
    /// Backend of the service.
    pub backend_ref: Option<BackendRef>,
    /// Metadata that is sent at the start of a stream.
    pub initial_metadata: Option<Vec<GrpcMetadata>>,
    /// Maximum size of a received message.
    pub max_receive_message_length: Option<i64>,
    /// Retries.
    pub retry_policy: Option<CollectorRetryPolicy>,
    /// Whether Envoy's own headers are left out.
    pub skip_envoy_headers: Option<bool>,
    /// Time limit for calls.
    pub timeout: Option<Arc<str>>,
}

/// A gRPC metadata entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcMetadata {
    /// Name.
    pub key: Arc<str>,
    /// Value.
    pub value: Option<Arc<str>>,
}

/// Retries of calls to a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CollectorRetryPolicy {
    /// Number of retries.
    pub num_retries: Option<i64>,
    /// Delays between retries.
    pub retry_back_off: Option<BackOff>,
}

/// Delays between retries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackOff {
    /// Minimum delay.
    pub base_interval: Arc<str>,
    /// Maximum delay.
    pub max_interval: Option<Arc<str>>,
}

/// A gRPC access log service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogService {
    /// Additional request headers that are logged.
    pub additional_request_headers_to_log: Option<Vec<Arc<str>>>,
    /// Additional response headers that are logged.
    pub additional_response_headers_to_log: Option<Vec<Arc<str>>>,
    /// Additional response trailers that are logged.
    pub additional_response_trailers_to_log: Option<Vec<Arc<str>>>,
    /// `:authority` of calls.
    pub authority: Option<Arc<str>>,
    /// Backend of the service.
    pub backend_ref: Option<BackendRef>,
    /// Metadata that is sent at the start of a stream.
    pub initial_metadata: Option<Vec<GrpcMetadata>>,
    /// Name of the log.
    #[serde(default)]
    pub log_name: Arc<str>,
    /// Maximum size of a received message.
    pub max_receive_message_length: Option<i64>,
    /// Retries.
    pub retry_policy: Option<CollectorRetryPolicy>,
    /// Whether Envoy's own headers are left out.
    pub skip_envoy_headers: Option<bool>,
    /// Time limit for calls.
    pub timeout: Option<Arc<str>>,
}

impl LogService {
    /// Returns the gRPC service without the log settings.
    pub fn service(&self) -> CollectorGrpcService {
        CollectorGrpcService {
            authority: self.authority.clone(),
            backend_ref: self.backend_ref.clone(),
            initial_metadata: self.initial_metadata.clone(),
            max_receive_message_length: self.max_receive_message_length,
            retry_policy: self.retry_policy.clone(),
            skip_envoy_headers: self.skip_envoy_headers,
            timeout: self.timeout.clone(),
        }
    }
}

/// An OpenTelemetry collector for logs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTelemetryLog {
    /// Attributes of each log entry.
    pub attributes: Option<KeyValues>,
    /// Text of the log entry.
    pub body: Option<Arc<str>>,
    /// Whether Envoy's own labels are left out.
    pub disable_builtin_labels: Option<bool>,
    /// The collector.
    #[serde(default)]
    pub grpc_service: LogService,
    /// Attributes of the Envoy.
    pub resource_attributes: Option<KeyValues>,
}

/// Values by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyValues {
    /// The values.
    #[serde(default)]
    pub values: Vec<KeyValue>,
}

/// A value with its key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyValue {
    /// Key.
    pub key: Arc<str>,
    /// Value.
    pub value: AnyValue,
}

/// A value; one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AnyValue {
    /// A list of values.
    pub array_value: Option<Vec<AnyValue>>,
    /// Values by key.
    pub kv_list_value: Option<KeyValues>,
    /// Text.
    pub string_value: Option<Arc<str>>,
}
