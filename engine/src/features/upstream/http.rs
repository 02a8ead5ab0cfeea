//! What is as usual in HTTP towards a back end and what is not: limits of connections, options of each version, and
//! which version it is where TLS agrees on one.

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
use crate::model::Protocol;

/// HTTP of any version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommonHttp {
    /// How long a connection may be idle.
    pub idle: Option<Duration>,
    /// Headers of one answer.
    pub headers: Option<u32>,
    /// How long a request may take, whatever else is said.
    pub stream: Option<Duration>,
    /// Requests of one connection.
    pub requests: Option<u32>,
}

/// HTTP/1.1.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Http1 {
    /// Are trailers passed on?
    pub trailers: bool,
    /// Is a connection kept after a message that is none?
    pub lenient: Option<bool>,
    /// Do names of headers keep their case?
    pub keep_case: bool,
}

/// HTTP/2.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Http2 {
    /// Bytes that may be under way in a connection.
    pub connection_window: Option<u32>,
    /// Bytes that may be under way in a request.
    pub stream_window: Option<u32>,
    /// Requests at a time in a connection.
    pub streams: Option<u32>,
    /// Is a connection kept after a message that is none?
    pub lenient: Option<bool>,
    /// How connections are kept alive.
    pub pings: Option<Pings>,
}

/// How connections of HTTP/2 are kept alive.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pings {
    /// Time between two.
    pub interval: Option<Duration>,
    /// Time that an answer may take.
    pub timeout: Duration,
    /// After how long an idle connection is asked before it is used.
    pub idle: Option<Duration>,
}

/// Which version of HTTP is spoken.
enum Spoken {
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

impl Http1 {
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

impl Http2 {
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
    /// What is not as usual in the protocol; none where all is.
    pub(crate) fn protocol_options(&self, protocol: Protocol) -> Option<Any> {
        self.protocol_options_with(protocol, &Special::default())
    }

    /// The same of a back end about which something is special.
    pub(crate) fn protocol_options_with(&self, protocol: Protocol, special: &Special) -> Option<Any> {
        let configured = self.configured.as_deref().cloned().unwrap_or_default();
        let common = self.common(&configured);
        let hash_policy = configured.balance.as_ref().map(|balance| balance.hashed()).unwrap_or_default();
        let spoken = self.spoken(protocol);
        let is_usual = common.is_none() && hash_policy.is_empty() && configured.http1.is_none();
        if matches!(spoken, Spoken::One) && is_usual && special.is_empty() {
            return None;
        }
        let one = configured.http1.unwrap_or_default().encode();
        let two = configured.http2.unwrap_or_default().encode();
        let explicit =
            |config| UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig { protocol_config: Some(config) });
        let version = match spoken {
            Spoken::One => explicit(ProtocolConfig::HttpProtocolOptions(one)),
            Spoken::Two => explicit(ProtocolConfig::Http2ProtocolOptions(two)),
            Spoken::Agreed => UpstreamProtocolOptions::AutoConfig(AutoHttpConfig {
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
        let said = configured.common_http.clone().unwrap_or_default();
        let idle = said.idle.or(self.idle);
        if idle.is_none() && configured.common_http.is_none() {
            return None;
        }
        Some(CommonOptions {
            idle_timeout: idle.map(duration),
            max_headers_count: count(said.headers),
            max_stream_duration: said.stream.map(duration),
            max_requests_per_connection: count(said.requests),
            ..Default::default()
        })
    }

    /// Where a policy says what TLS agrees on, that is what is spoken.
    fn spoken(&self, protocol: Protocol) -> Spoken {
        let alpn: &[_] = self.tls.as_ref().map_or(&[], |tls| &tls.alpn);
        let offers = |name: &str| alpn.iter().any(|offered| &**offered == name);
        match (offers("h2"), offers("http/1.1"), protocol) {
            (true, true, _) => Spoken::Agreed,
            (true, false, _) => Spoken::Two,
            (false, true, _) | (false, false, Protocol::Http1) => Spoken::One,
            (false, false, Protocol::H2c) => Spoken::Two,
        }
    }
}
