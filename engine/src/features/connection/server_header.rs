//! The header `server` of answers.

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::ServerHeaderTransformation;

/// What becomes of it, or what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerHeader {
    /// The back end's is replaced.
    Overwrite,
    /// It is added where the back end sends none.
    AppendIfAbsent,
    /// The back end's is left as it is.
    PassThrough,
    /// What it says.
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
