//! Certificates, each as a separate Secret, so that a new certificate changes no listener.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/security/secret>

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as envoy;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::secret::Type;
use holdfast_graph::ObjectKey;
use prost::Message;

use super::names;

/// Returns a certificate chain with its private key, both in PEM.
pub fn encode(key: &ObjectKey, chain: &Bytes, private_key: &Bytes) -> Bytes {
    let inline = |bytes: &Bytes| {
        Some(DataSource { specifier: Some(Specifier::InlineBytes(bytes.to_vec())), ..Default::default() })
    };
    envoy::Secret {
        name: names::secret(key),
        r#type: Some(Type::TlsCertificate(envoy::TlsCertificate {
            certificate_chain: inline(chain),
            private_key: inline(private_key),
            ..Default::default()
        })),
    }
    .encode_to_vec()
    .into()
}
