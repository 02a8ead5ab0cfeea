//! HTTP options of a backend that differ from the defaults: connection limits, options of each version, and the version
//! that TLS negotiates.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::http1_protocol_options::HeaderKeyFormat;
use envoy_types::pb::envoy::config::core::v3::http1_protocol_options::header_key_format::HeaderFormat;
use envoy_types::pb::envoy::config::core::v3::{
    Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions as CommonOptions, KeepaliveSettings,
    TypedExtensionConfig,
};
use envoy_types::pb::envoy::extensions::http::header_formatters::preserve_case::v3::PreserveCaseFormatterConfig;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::explicit_http_config::ProtocolConfig;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    AutoHttpConfig, ExplicitHttpConfig, UpstreamProtocolOptions,
};
use envoy_types::pb::google::protobuf::{Any, BoolValue, UInt32Value};

use super::{Configured, Upstream};
use crate::encode::{any, duration};
use crate::features::upstream_filters::Special;
use crate::model::BackendProtocol;

/// Options of all HTTP versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamHttp {
    /// Idle timeout of a connection.
    pub idle: Option<Duration>,
    /// Maximum number of headers of one response.
    pub headers: Option<u32>,
    /// Maximum duration of a request, whatever other timeouts apply.
    pub stream: Option<Duration>,
    /// Maximum number of requests of one connection.
    pub requests: Option<u32>,
}

/// HTTP/1.1 options.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamHttp1 {
    /// Whether trailers are forwarded.
    pub trailers: bool,
    /// Whether a connection stays open after an invalid message.
    pub lenient: Option<bool>,
    /// Whether header names keep their case.
    pub keep_case: bool,
}

/// HTTP/2 options.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamHttp2 {
    /// Initial window size of a connection, in bytes.
    pub connection_window: Option<u32>,
    /// Initial window size of a stream, in bytes.
    pub stream_window: Option<u32>,
    /// Maximum number of concurrent streams of a connection.
    pub streams: Option<u32>,
    /// Whether a connection stays open after an invalid message.
    pub lenient: Option<bool>,
    /// Keepalive pings.
    pub pings: Option<Pings>,
}

/// Keepalive pings of HTTP/2.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pings {
    /// Interval between two pings.
    pub interval: Option<Duration>,
    /// Timeout of a response.
    pub timeout: Duration,
    /// Idle time after which a connection is probed before it is used.
    pub idle: Option<Duration>,
}

/// The HTTP version towards a backend.
enum HttpVersion {
    One,
    Two,
    Agreed,
}

fn flag(value: Option<bool>) -> Option<BoolValue> {
    value.map(|value| BoolValue { value })
}

fn count(value: Option<u32>) -> Option<UInt32Value> {
    value.map(|value| UInt32Value { value })
}

impl UpstreamHttp1 {
    fn encode(&self) -> Http1ProtocolOptions {
        let format = || HeaderKeyFormat {
            header_format: Some(HeaderFormat::StatefulFormatter(TypedExtensionConfig {
                name: "envoy.http.stateful_header_formatters.preserve_case".into(),
                typed_config: Some(any(&PreserveCaseFormatterConfig::default())),
            })),
        };
        Http1ProtocolOptions {
            enable_trailers: self.trailers,
            override_stream_error_on_invalid_http_message: flag(self.lenient),
            header_key_format: self.keep_case.then(format),
            ..Default::default()
        }
    }
}

impl UpstreamHttp2 {
    fn encode(&self) -> Http2ProtocolOptions {
        Http2ProtocolOptions {
            initial_connection_window_size: count(self.connection_window),
            initial_stream_window_size: count(self.stream_window),
            max_concurrent_streams: count(self.streams),
            override_stream_error_on_invalid_http_message: flag(self.lenient),
            connection_keepalive: self.pings.as_ref().map(|pings| KeepaliveSettings {
                interval: pings.interval.map(duration),
                timeout: Some(duration(pings.timeout)),
                connection_idle_interval: pings.idle.map(duration),
                ..Default::default()
            }),
            ..Default::default()
        }
    }
}

impl Upstream {
    /// Returns the options that differ from the protocol's defaults; `None` where none do.
    pub(crate) fn protocol_options(&self, protocol: BackendProtocol) -> Option<Any> {
        self.protocol_options_with(protocol, &Special::default())
    }

    /// Returns the options for a backend with upstream HTTP settings of its own.
    pub(crate) fn protocol_options_with(&self, protocol: BackendProtocol, special: &Special) -> Option<Any> {
        let configured = self.configured.as_deref().cloned().unwrap_or_default();
        let common = self.common(&configured);
        let hash_policy = configured.balance.as_ref().map(|balance| balance.hashed()).unwrap_or_default();
        let spoken = self.spoken(protocol);
        let is_usual = common.is_none() && hash_policy.is_empty() && configured.http1.is_none();
        if matches!(spoken, HttpVersion::One) && is_usual && special.is_empty() {
            return None;
        }
        let one = configured.http1.unwrap_or_default().encode();
        let two = configured.http2.unwrap_or_default().encode();
        let explicit =
            |config| UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig { protocol_config: Some(config) });
        let version = match spoken {
            HttpVersion::One => explicit(ProtocolConfig::HttpProtocolOptions(one)),
            HttpVersion::Two => explicit(ProtocolConfig::Http2ProtocolOptions(two)),
            HttpVersion::Agreed => UpstreamProtocolOptions::AutoConfig(AutoHttpConfig {
                http_protocol_options: Some(one),
                http2_protocol_options: Some(two),
                ..Default::default()
            }),
        };
        Some(any(&HttpProtocolOptions {
            common_http_protocol_options: common,
            upstream_protocol_options: Some(version),
            hash_policy,
            upstream_http_protocol_options: special.names.clone(),
            http_filters: special.chain(),
            ..Default::default()
        }))
    }

    fn common(&self, configured: &Configured) -> Option<CommonOptions> {
        let common_http = configured.common_http.clone().unwrap_or_default();
        let idle = common_http.idle.or(self.idle);
        if idle.is_none() && configured.common_http.is_none() {
            return None;
        }
        Some(CommonOptions {
            idle_timeout: idle.map(duration),
            max_headers_count: count(common_http.headers),
            max_stream_duration: common_http.stream.map(duration),
            max_requests_per_connection: count(common_http.requests),
            ..Default::default()
        })
    }

    /// Returns the HTTP version. Where a policy sets ALPN, that determines the version.
    fn spoken(&self, protocol: BackendProtocol) -> HttpVersion {
        let alpn: &[_] = self.tls.as_ref().map_or(&[], |tls| &tls.alpn);
        let offers = |name: &str| alpn.iter().any(|offered| &**offered == name);
        match (offers("h2"), offers("http/1.1"), protocol) {
            (true, true, _) => HttpVersion::Agreed,
            (true, false, _) => HttpVersion::Two,
            (false, true, _) | (false, false, BackendProtocol::Http1) => HttpVersion::One,
            (false, false, BackendProtocol::H2c) => HttpVersion::Two,
        }
    }
}
