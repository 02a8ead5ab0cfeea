//! HTTP fields of ListenerPolicies.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::headers::HeaderFilter;
use super::log_filter::AccessLogFilter;
use super::policy::Quantity;
use super::records::AccessLog;
use super::tracer::Tracing;

/// HTTP settings of connections with clients.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpSettings {
    /// Whether HTTP/1.0 is accepted.
    pub accept_http10: Option<bool>,
    /// Access logs; `None` for each entry that could not be read.
    pub access_log: Option<Vec<Option<AccessLog>>>,
    /// Host of HTTP/1.0 requests without a `Host` header.
    pub default_host_for_http10: Option<Arc<str>>,
    /// Changes to request headers before the route is selected.
    pub early_request_header_modifier: Option<HeaderFilter>,
    /// Fields of client certificates that are forwarded to backends.
    pub forward_client_cert_details: Option<ForwardClientCertDetails>,
    /// Whether Envoy generates a request ID for requests without one.
    pub generate_request_id: Option<bool>,
    /// Health check endpoint of the Envoy itself.
    pub health_check: Option<EnvoyHealthEndpoint>,
    /// HTTP/2.
    pub http2_protocol_options: Option<Http2ProtocolOptions>,
    /// Idle timeout of a connection.
    pub idle_timeout: Option<Arc<str>>,
    /// Format of local replies, the responses that Envoy itself generates.
    pub local_replies: Option<LocalReplies>,
    /// Maximum number of headers of a request.
    pub max_headers_count: Option<i64>,
    /// Maximum size of the headers of a request, in KiB.
    pub max_request_headers_kb: Option<i64>,
    /// Maximum number of requests on a connection.
    pub max_requests_per_connection: Option<i64>,
    /// Whether the request ID of a client is kept.
    pub preserve_external_request_id: Option<bool>,
    /// Whether header names keep their case.
    pub preserve_http1_header_case: Option<bool>,
    /// Whether `Expect: 100-continue` is forwarded to backends.
    #[serde(rename = "proxy100Continue")]
    pub proxy_100_continue: Option<bool>,
    /// Handling of the header `server`.
    pub server_header_transformation: Option<Arc<str>>,
    /// Value of the header `server`.
    pub server_name: Option<Arc<str>>,
    /// Whether the address of the client is left out of `x-forwarded-for`.
    #[serde(rename = "skipXFFAppend")]
    pub skip_xff_append: Option<bool>,
    /// Idle timeout of a stream.
    pub stream_idle_timeout: Option<Arc<str>>,
    /// Whether the port is removed from the host.
    pub strip_host_port_mode: Option<Arc<str>>,
    /// Whether the trailing dot is removed from the host.
    pub strip_trailing_host_dot: Option<bool>,
    /// Tracing.
    pub tracing: Option<Tracing>,
    /// Allowed upgrades of connections.
    pub upgrade_config: Option<UpgradeConfig>,
    /// Whether the peer of the connection counts as the client.
    pub use_remote_address: Option<bool>,
    /// Generation of request IDs.
    pub uuid_request_id_config: Option<UuidRequestIdConfig>,
    /// Number of trusted proxies in front of Envoy.
    pub xff_num_trusted_hops: Option<i64>,
    /// Addresses of trusted proxies in front of Envoy.
    #[serde(rename = "xffTrustedCIDRs")]
    pub xff_trusted_cidrs: Option<Vec<Arc<str>>>,
}

/// Forwarding of client certificates to backends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardClientCertDetails {
    /// Fields that are forwarded.
    pub details: Option<ClientCertDetails>,
    /// Handling of the header with the fields.
    pub mode: Option<Arc<str>>,
}

/// Fields of a client certificate that are forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertDetails {
    /// The whole certificate.
    pub cert: Option<bool>,
    /// The whole certificate chain.
    pub chain: Option<bool>,
    /// The DNS names.
    pub dns: Option<bool>,
    /// The subject.
    pub subject: Option<bool>,
    /// The URI.
    pub uri: Option<bool>,
}

/// Health check endpoint of the Envoy itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvoyHealthEndpoint {
    /// Path of the endpoint.
    pub path: Arc<str>,
}

/// HTTP/2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Http2ProtocolOptions {
    /// Whether streams may become tunnels (CONNECT).
    pub allow_connect: Option<bool>,
    /// Flow-control window of a connection, in bytes.
    pub initial_connection_window_size: Option<Quantity>,
    /// Flow-control window of a stream, in bytes.
    pub initial_stream_window_size: Option<Quantity>,
    /// Maximum number of concurrent streams.
    pub max_concurrent_streams: Option<i64>,
}

/// Format of local replies, the responses that Envoy itself generates.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalReplies {
    /// Format of all local replies.
    pub default_body_format: Option<LocalReplyBodyFormat>,
    /// Changes of some local replies.
    pub mappers: Option<Vec<LocalReplyMapper>>,
}

/// Format of a body.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalReplyBodyFormat {
    /// Content type.
    pub content_type: Option<Arc<str>>,
    /// JSON format.
    pub json: Option<serde_json::Map<String, serde_json::Value>>,
    /// Text format.
    pub text: Option<Arc<str>>,
}

/// A change of some local replies.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalReplyMapper {
    /// The body.
    pub body: Option<Arc<str>>,
    /// Format in which the body is inserted.
    pub body_format_override: Option<LocalReplyBodyFormat>,
    /// Filter of the local replies to change.
    #[serde(default)]
    pub filter: AccessLogFilter,
    /// Headers of the reply.
    pub headers: Option<HeaderFilter>,
    /// Status of the reply.
    pub status_code: Option<i64>,
}

/// Allowed upgrades of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeConfig {
    /// Protocols, for example `websocket`.
    #[serde(default)]
    pub enabled_upgrades: Vec<Arc<str>>,
}

/// Generation of request IDs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UuidRequestIdConfig {
    /// Whether the request ID contains the reason for tracing.
    pub pack_trace_reason: Option<bool>,
    /// Whether the request ID decides about trace sampling.
    pub use_request_id_for_trace_sampling: Option<bool>,
}
