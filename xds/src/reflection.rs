//! gRPC reflection, so that tools such as `grpcurl` can call the server without a copy of the Envoy API.

use tonic_reflection::server::Builder;
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};

use crate::json::DESCRIPTORS;

/// Returns the reflection service for these services, or `None` where the descriptors do not decode, which a test
/// excludes.
pub(crate) fn service(names: &[&str]) -> Option<ServerReflectionServer<impl ServerReflection + use<>>> {
    let mut builder = Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
    for name in names {
        builder = builder.with_service_name(*name);
    }
    builder.build_v1().ok()
}
