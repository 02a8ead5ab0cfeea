//! Limits of requests and connections.

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::google::protobuf::UInt32Value;

/// Largest limit of request headers that Envoy accepts, in KiB.
pub const HEADERS_KB_MAX: u32 = 8192;

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Maximum number of requests on one connection; 0 means no limit.
    RequestsPerConnection(u32),
    /// Maximum number of headers of a request.
    Headers(u32),
    /// Maximum size of all headers of a request together, in KiB.
    HeadersKb(u32),
}

impl Limit {
    pub(super) fn apply(self, manager: &mut HttpConnectionManager) {
        let common = manager.common_http_protocol_options.get_or_insert_default();
        match self {
            Limit::RequestsPerConnection(0) => {}
            Limit::RequestsPerConnection(value) => common.max_requests_per_connection = Some(UInt32Value { value }),
            Limit::Headers(value) => common.max_headers_count = Some(UInt32Value { value }),
            Limit::HeadersKb(value) => manager.max_request_headers_kb = Some(UInt32Value { value }),
        }
    }
}
