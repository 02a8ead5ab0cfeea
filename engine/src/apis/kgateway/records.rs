//! What ListenerPolicies say about access logs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::log_filter::Filter;
use crate::apis::gateway::references::BackendRef;

/// Where requests are written down.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLog {
    /// In a file.
    pub file_sink: Option<FileSink>,
    /// Which requests.
    pub filter: Option<Filter>,
    /// By a service of gRPC.
    pub grpc_service: Option<LogService>,
    /// By a collector of OpenTelemetry.
    pub open_telemetry: Option<OpenTelemetryLog>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileSink {
    /// Each line as an object.
    pub json_format: Option<Map<String, Value>>,
    /// Its path.
    pub path: Arc<str>,
    /// Each line as text.
    pub string_format: Option<Arc<str>>,
}

/// A service of gRPC.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcService {
    /// The host that it is asked for.
    pub authority: Option<Arc<str>>,
    /// Who it is.
    pub backend_ref: Option<BackendRef>,
    /// What it is told at the beginning.
    pub initial_metadata: Option<Vec<Metadata>>,
    /// Its largest message.
    pub max_receive_message_length: Option<i64>,
    /// When it is asked again.
    pub retry_policy: Option<RetryPolicy>,
    /// Are Envoy's own headers left out?
    pub skip_envoy_headers: Option<bool>,
    /// How long it may take.
    pub timeout: Option<Arc<str>>,
}

/// A header of gRPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Name.
    pub key: Arc<str>,
    /// Value.
    pub value: Option<Arc<str>>,
}

/// When a service is asked again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// How often.
    pub num_retries: Option<i64>,
    /// The time between.
    pub retry_back_off: Option<BackOff>,
}

/// The time between two tries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackOff {
    /// The shortest.
    pub base_interval: Arc<str>,
    /// The longest.
    pub max_interval: Option<Arc<str>>,
}

/// A service of gRPC that writes requests down.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogService {
    /// Request headers that are written down.
    pub additional_request_headers_to_log: Option<Vec<Arc<str>>>,
    /// Response headers that are.
    pub additional_response_headers_to_log: Option<Vec<Arc<str>>>,
    /// Response trailers that are.
    pub additional_response_trailers_to_log: Option<Vec<Arc<str>>>,
    /// The host that it is asked for.
    pub authority: Option<Arc<str>>,
    /// Who it is.
    pub backend_ref: Option<BackendRef>,
    /// What it is told at the beginning.
    pub initial_metadata: Option<Vec<Metadata>>,
    /// What the log is called.
    #[serde(default)]
    pub log_name: Arc<str>,
    /// Its largest message.
    pub max_receive_message_length: Option<i64>,
    /// When it is asked again.
    pub retry_policy: Option<RetryPolicy>,
    /// Are Envoy's own headers left out?
    pub skip_envoy_headers: Option<bool>,
    /// How long it may take.
    pub timeout: Option<Arc<str>>,
}

impl LogService {
    /// The service itself.
    pub fn service(&self) -> GrpcService {
        GrpcService {
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

/// A collector of OpenTelemetry.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTelemetryLog {
    /// What is told of each request.
    pub attributes: Option<KeyValues>,
    /// The line.
    pub body: Option<Arc<str>>,
    /// Are Envoy's own labels left out?
    pub disable_builtin_labels: Option<bool>,
    /// Who it is.
    #[serde(default)]
    pub grpc_service: LogService,
    /// What is told of this Envoy.
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

/// A value; one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AnyValue {
    /// Several.
    pub array_value: Option<Vec<AnyValue>>,
    /// Several by key.
    pub kv_list_value: Option<KeyValues>,
    /// Text.
    pub string_value: Option<Arc<str>>,
}
