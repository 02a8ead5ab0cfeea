//! The response header `server`.

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::ServerHeaderTransformation;

/// Handling of the header, or its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerHeader {
    /// The backend's header is replaced.
    Overwrite,
    /// The header is added where the backend sends none.
    AppendIfAbsent,
    /// The backend's header is unchanged.
    PassThrough,
    /// The value of the header.
    Name(Arc<str>),
}

impl ServerHeader {
    pub(super) fn apply(&self, manager: &mut HttpConnectionManager) {
        let transformation = match self {
            ServerHeader::Overwrite => ServerHeaderTransformation::Overwrite,
            ServerHeader::AppendIfAbsent => ServerHeaderTransformation::AppendIfAbsent,
            ServerHeader::PassThrough => ServerHeaderTransformation::PassThrough,
            ServerHeader::Name(name) => {
                manager.server_name = name.to_string();
                return;
            }
        };
        manager.server_header_transformation = transformation.into();
    }
}
