//! The identities of requests, in `x-request-id`.

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, RequestIdExtension,
};
use envoy_types::pb::envoy::extensions::request_id::uuid::v3::UuidRequestIdConfig;
use envoy_types::pb::google::protobuf::BoolValue;

use crate::encode::any;

/// Something about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestId {
    /// Do requests get one that have none?
    Generate(bool),
    /// Is the one kept that a client gave?
    Preserve(bool),
    /// How they are made.
    Uuid {
        /// Do they say why a request is traced?
        pack_reason: bool,
        /// Do they decide whether it is?
        sampling: bool,
    },
}

impl RequestId {
    pub(super) fn apply(self, manager: &mut HttpConnectionManager) {
        let flag = |value: bool| Some(BoolValue { value });
        match self {
            RequestId::Generate(value) => manager.generate_request_id = flag(value),
            RequestId::Preserve(value) => manager.preserve_external_request_id = value,
            RequestId::Uuid { pack_reason, sampling } => {
                let config = UuidRequestIdConfig {
                    pack_trace_reason: flag(pack_reason),
                    use_request_id_for_trace_sampling: flag(sampling),
                };
                manager.request_id_extension = Some(RequestIdExtension { typed_config: Some(any(&config)) });
            }
        }
    }
}
