//! What a BackendConfigPolicy says of HTTP.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::policy::Quantity;

/// HTTP of any version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommonHttp {
    /// How long a connection may be idle.
    pub idle_timeout: Option<Arc<str>>,
    /// Headers of one answer.
    pub max_headers_count: Option<i64>,
    /// How long a request may take.
    pub max_stream_duration: Option<Arc<str>>,
    /// Requests of one connection.
    pub max_requests_per_connection: Option<i64>,
}

/// HTTP/1.1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Http1 {
    /// Are trailers passed on?
    pub enable_trailers: Option<bool>,
    /// Is a connection kept after a message that is none?
    pub override_stream_error_on_invalid_http_message: Option<bool>,
    /// Do names of headers keep their case?
    pub preserve_http1_header_case: Option<bool>,
}

/// HTTP/2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Http2 {
    /// How connections are kept alive.
    pub connection_keepalive: Option<Keepalive>,
    /// Bytes under way in a connection.
    pub initial_connection_window_size: Option<Quantity>,
    /// Bytes under way in a request.
    pub initial_stream_window_size: Option<Quantity>,
    /// Requests at a time.
    pub max_concurrent_streams: Option<i64>,
    /// Is a connection kept after a message that is none?
    pub override_stream_error_on_invalid_http_message: Option<bool>,
}

/// How connections of HTTP/2 are kept alive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Keepalive {
    /// After how long an idle connection is asked before it is used.
    pub connection_idle_interval: Option<Arc<str>>,
    /// Time between two questions.
    pub interval: Option<Arc<str>>,
    /// Time that an answer may take.
    pub timeout: Arc<str>,
}
