//! HTTP/1 options: support of HTTP/1.0, and the case of header names.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::http1_protocol_options::HeaderKeyFormat;
use envoy_types::pb::envoy::config::core::v3::http1_protocol_options::header_key_format::HeaderFormat;
use envoy_types::pb::envoy::config::core::v3::{Http1ProtocolOptions, TypedExtensionConfig};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::http::header_formatters::preserve_case::v3::PreserveCaseFormatterConfig;

use crate::encode::any;

/// An HTTP/1 option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownstreamHttp1 {
    /// Whether HTTP/1.0 is accepted.
    Version10(bool),
    /// The default host of HTTP/1.0 requests without a host.
    DefaultHost(Arc<str>),
    /// Whether header names keep their case.
    KeepCase(bool),
}

impl DownstreamHttp1 {
    pub(super) fn apply(&self, manager: &mut HttpConnectionManager) {
        let options: &mut Http1ProtocolOptions = manager.http_protocol_options.get_or_insert_default();
        match self {
            DownstreamHttp1::Version10(taken) => options.accept_http_10 = *taken,
            DownstreamHttp1::DefaultHost(host) => options.default_host_for_http_10 = host.to_string(),
            DownstreamHttp1::KeepCase(true) => {
                let format = HeaderFormat::StatefulFormatter(TypedExtensionConfig {
                    name: "envoy.http.stateful_header_formatters.preserve_case".into(),
                    typed_config: Some(any(&PreserveCaseFormatterConfig::default())),
                });
                options.header_key_format = Some(HeaderKeyFormat { header_format: Some(format) });
            }
            DownstreamHttp1::KeepCase(false) => {}
        }
    }
}
