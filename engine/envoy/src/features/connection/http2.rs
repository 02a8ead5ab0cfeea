//! HTTP/2 options: limits of streams and windows.

use envoy_types::pb::envoy::config::core::v3::Http2ProtocolOptions;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::google::protobuf::UInt32Value;

/// Valid window sizes in bytes, as the protocol defines them.
pub const WINDOW_BYTES: std::ops::RangeInclusive<u32> = 65_535..=2_147_483_647;

/// HTTP/2 options; defaults apply where unset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DownstreamHttp2 {
    /// Maximum number of concurrent streams.
    pub streams: Option<u32>,
    /// Initial window size of a stream, in bytes.
    pub stream_window: Option<u32>,
    /// Initial window size of a connection, in bytes.
    pub connection_window: Option<u32>,
    /// Whether CONNECT is allowed.
    pub allow_connect: Option<bool>,
}

impl DownstreamHttp2 {
    pub(super) fn apply(self, manager: &mut HttpConnectionManager) {
        let options: &mut Http2ProtocolOptions = manager.http2_protocol_options.get_or_insert_default();
        let number =
            |value: Option<u32>, usual: Option<UInt32Value>| value.map(|value| UInt32Value { value }).or(usual);
        options.max_concurrent_streams = number(self.streams, options.max_concurrent_streams);
        options.initial_stream_window_size = number(self.stream_window, options.initial_stream_window_size);
        options.initial_connection_window_size = number(self.connection_window, options.initial_connection_window_size);
        options.allow_connect = self.allow_connect.unwrap_or(options.allow_connect);
    }
}
