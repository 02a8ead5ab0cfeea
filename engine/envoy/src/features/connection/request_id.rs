//! Request IDs in `x-request-id`.

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, RequestIdExtension,
};
use envoy_types::pb::envoy::extensions::request_id::uuid::v3::UuidRequestIdConfig;
use envoy_types::pb::google::protobuf::BoolValue;

use crate::encode::any;

/// A request ID setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestId {
    /// Whether requests without an ID get one.
    Generate(bool),
    /// Whether the ID of an external request is kept.
    Preserve(bool),
    /// Options of UUID generation.
    Uuid {
        /// Whether the UUID contains the trace reason.
        pack_reason: bool,
        /// Whether the UUID decides about trace sampling.
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
