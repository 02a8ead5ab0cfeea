//! HTTP fields of BackendConfigPolicies.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::policy::Quantity;

/// Settings for any version of HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommonHttp {
    /// Idle timeout of a connection.
    pub idle_timeout: Option<Arc<str>>,
    /// Maximum number of headers of a response.
    pub max_headers_count: Option<i64>,
    /// Maximum duration of a stream.
    pub max_stream_duration: Option<Arc<str>>,
    /// Maximum number of requests on a connection.
    pub max_requests_per_connection: Option<i64>,
}

/// HTTP/1.1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Http1 {
    /// Whether trailers are forwarded.
    pub enable_trailers: Option<bool>,
    /// Whether a connection stays open after an invalid HTTP message.
    pub override_stream_error_on_invalid_http_message: Option<bool>,
    /// Whether header names keep their case.
    pub preserve_http1_header_case: Option<bool>,
}

/// HTTP/2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Http2 {
    /// Keepalive of connections by PING frames.
    pub connection_keepalive: Option<Keepalive>,
    /// Flow-control window of a connection, in bytes.
    pub initial_connection_window_size: Option<Quantity>,
    /// Flow-control window of a stream, in bytes.
    pub initial_stream_window_size: Option<Quantity>,
    /// Maximum number of concurrent requests on a connection.
    pub max_concurrent_streams: Option<i64>,
    /// Whether a connection stays open after an invalid HTTP message.
    pub override_stream_error_on_invalid_http_message: Option<bool>,
}

/// Keepalive of HTTP/2 connections by PING frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Keepalive {
    /// Idle time after which a connection is checked before it is used.
    pub connection_idle_interval: Option<Arc<str>>,
    /// Time between two PING frames.
    pub interval: Option<Arc<str>>,
    /// Time limit for the answer to a PING frame.
    pub timeout: Arc<str>,
}
