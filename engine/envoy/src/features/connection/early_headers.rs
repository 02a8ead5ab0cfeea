//! Header changes before route selection: they remove headers that clients must not be able to set.

use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::http::early_header_mutation::header_mutation::v3::HeaderMutation;
use prost::Message;

use crate::encode::any;
use crate::features::header_mutation;
use crate::features::headers::HeaderEdits;

/// The header changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EarlyHeaders(pub HeaderEdits);

impl EarlyHeaders {
    /// Encodes the changes as a fragment to append to an encoded connection manager.
    pub(super) fn encode(&self) -> Vec<u8> {
        let config = HeaderMutation { mutations: header_mutation::mutations(&self.0) };
        let extension = TypedExtensionConfig {
            name: "envoy.http.early_header_mutation.header_mutation".into(),
            typed_config: Some(any(&config)),
        };
        HttpConnectionManager { early_header_mutation_extensions: vec![extension], ..Default::default() }
            .encode_to_vec()
    }
}
