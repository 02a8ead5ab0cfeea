//! What ListenerPolicies say about HTTP.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::headers::HeaderFilter;
use super::log_filter::Filter;
use super::policy::Quantity;
use super::records::AccessLog;
use super::tracer::Tracing;

/// How HTTP is spoken to clients.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpSettings {
    /// Is HTTP/1.0 taken?
    pub accept_http10: Option<bool>,
    /// Where requests are written down; `None` for each entry that could not be read.
    pub access_log: Option<Vec<Option<AccessLog>>>,
    /// The host of requests of HTTP/1.0 that name none.
    pub default_host_for_http10: Option<Arc<str>>,
    /// Changes to requests before a route is looked for.
    pub early_request_header_modifier: Option<HeaderFilter>,
    /// What back ends are told of certificates of clients.
    pub forward_client_cert_details: Option<ForwardClientCertDetails>,
    /// Do requests get an identity that have none?
    pub generate_request_id: Option<bool>,
    /// Envoy itself answers for its health.
    pub health_check: Option<HealthCheck>,
    /// HTTP/2.
    pub http2_protocol_options: Option<Http2ProtocolOptions>,
    /// How long a connection may be idle.
    pub idle_timeout: Option<Arc<str>>,
    /// What answers look like that Envoy itself gives.
    pub local_replies: Option<LocalReplies>,
    /// Most headers of a request.
    pub max_headers_count: Option<i64>,
    /// Largest headers of a request.
    pub max_request_headers_kb: Option<i64>,
    /// Most requests on one connection.
    pub max_requests_per_connection: Option<i64>,
    /// Is the identity kept that a client gave?
    pub preserve_external_request_id: Option<bool>,
    /// Do names of headers keep their case?
    pub preserve_http1_header_case: Option<bool>,
    /// Is `Expect: 100-continue` for back ends to answer?
    #[serde(rename = "proxy100Continue")]
    pub proxy_100_continue: Option<bool>,
    /// What becomes of the header `server`.
    pub server_header_transformation: Option<Arc<str>>,
    /// What stands there.
    pub server_name: Option<Arc<str>>,
    /// Is the client's address left out of `x-forwarded-for`?
    #[serde(rename = "skipXFFAppend")]
    pub skip_xff_append: Option<bool>,
    /// How long a stream may be idle.
    pub stream_idle_timeout: Option<Arc<str>>,
    /// Is the port left out of the host?
    pub strip_host_port_mode: Option<Arc<str>>,
    /// Is the dot at its end left out?
    pub strip_trailing_host_dot: Option<bool>,
    /// Where requests are traced.
    pub tracing: Option<Tracing>,
    /// What connections may become.
    pub upgrade_config: Option<UpgradeConfig>,
    /// Is the client who connects?
    pub use_remote_address: Option<bool>,
    /// How identities of requests are made.
    pub uuid_request_id_config: Option<UuidRequestIdConfig>,
    /// How many proxies in front are trusted.
    pub xff_num_trusted_hops: Option<i64>,
    /// Which are, by their addresses.
    #[serde(rename = "xffTrustedCIDRs")]
    pub xff_trusted_cidrs: Option<Vec<Arc<str>>>,
}

/// What back ends are told of certificates of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardClientCertDetails {
    /// What of them.
    pub details: Option<ClientCertDetails>,
    /// What becomes of the header in which they are told.
    pub mode: Option<Arc<str>>,
}

/// What of a certificate is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertDetails {
    /// All of it.
    pub cert: Option<bool>,
    /// All of it, with its chain.
    pub chain: Option<bool>,
    /// Its DNS names.
    pub dns: Option<bool>,
    /// Its subject.
    pub subject: Option<bool>,
    /// Its URI.
    pub uri: Option<bool>,
}

/// Envoy itself answers for its health.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// At this path.
    pub path: Arc<str>,
}

/// HTTP/2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Http2ProtocolOptions {
    /// May streams become tunnels?
    pub allow_connect: Option<bool>,
    /// Bytes under way on a connection.
    pub initial_connection_window_size: Option<Quantity>,
    /// Bytes under way on a stream.
    pub initial_stream_window_size: Option<Quantity>,
    /// Most streams at a time.
    pub max_concurrent_streams: Option<i64>,
}

/// What answers look like that Envoy itself gives.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalReplies {
    /// All of them.
    pub default_body_format: Option<BodyFormat>,
    /// Some of them.
    pub mappers: Option<Vec<LocalReplyMapper>>,
}

/// What a body looks like.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BodyFormat {
    /// Its type.
    pub content_type: Option<Arc<str>>,
    /// As an object.
    pub json: Option<serde_json::Map<String, serde_json::Value>>,
    /// As text.
    pub text: Option<Arc<str>>,
}

/// What some answers look like.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalReplyMapper {
    /// Their body.
    pub body: Option<Arc<str>>,
    /// What it is put into.
    pub body_format_override: Option<BodyFormat>,
    /// Which answers.
    #[serde(default)]
    pub filter: Filter,
    /// Headers that they get.
    pub headers: Option<HeaderFilter>,
    /// Their status.
    pub status_code: Option<i64>,
}

/// What connections may become.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeConfig {
    /// `websocket` and others.
    #[serde(default)]
    pub enabled_upgrades: Vec<Arc<str>>,
}

/// How identities of requests are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UuidRequestIdConfig {
    /// Do they say why a request is traced?
    pub pack_trace_reason: Option<bool>,
    /// Do they decide whether it is?
    pub use_request_id_for_trace_sampling: Option<bool>,
}
