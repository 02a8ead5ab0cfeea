//! Client certificates: validation, and their forwarding to backends.
//!
//! The validation context is a resource of its own, so that an Envoy that refuses it closes one host and no other. Its
//! name contains a hash of its content, so that two different contexts have different names: an earlier context is
//! never served instead of the desired one.

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::{DataSource, data_source::Specifier};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    ForwardClientCertDetails, SetCurrentClientCertDetails,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as envoy;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::certificate_validation_context::TrustChainVerification;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::secret::Type;
use envoy_types::pb::google::protobuf::BoolValue;
use holdfast_graph::{ObjectKey, Origins};
use holdfast_xds::{Resource, Version};
use prost::Message;

use crate::encode::names;

/// Client certificate settings of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// Whether clients without a certificate are rejected.
    pub required: bool,
    /// The validation context.
    pub trust: ClientValidationContext,
    /// The certificate details that backends receive; none where unset.
    pub forwarded_details: Option<ForwardedDetails>,
}

/// The validation context of client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientValidationContext {
    /// The object that configures the validation.
    pub owner: ObjectKey,
    /// The certification authorities, and the object that contains them.
    pub authorities: Option<(ObjectKey, Bytes)>,
    /// Further objects that contain some of the authorities.
    pub besides: Vec<ObjectKey>,
    /// Certificate revocation lists, and the object that contains them.
    pub revoked: Option<(ObjectKey, Bytes)>,
    /// Whether only the client's own certificate is checked against the revocation lists.
    pub leaf_only: bool,
    /// Whether untrusted certificates are accepted.
    pub unverified: bool,
}

/// The certificate details that backends receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedDetails {
    /// The subject.
    pub subject: bool,
    /// The certificate.
    pub cert: bool,
    /// The certificate with its chain.
    pub chain: bool,
    /// The DNS names.
    pub dns: bool,
    /// The URI.
    pub uri: bool,
}

impl ClientValidationContext {
    /// Returns the name of the validation context's resource.
    pub fn name(&self) -> String {
        let label: String = Version::of(&self.encode("")).to_string().chars().take(16).collect();
        names::client_trust(&self.owner, &label)
    }

    /// Returns the validation context as a resource.
    pub fn resource(&self) -> Resource {
        let name = self.name();
        let body = self.encode(&name);
        let secrets = [&self.authorities, &self.revoked].into_iter().flatten().map(|(key, _)| key.clone());
        let origins: Origins = secrets.chain(self.besides.iter().cloned()).chain([self.owner.clone()]).collect();
        Resource::new(name, Bytes::from(body), origins)
    }

    fn encode(&self, name: &str) -> Vec<u8> {
        let inline = |(_, bytes): &(ObjectKey, Bytes)| DataSource {
            specifier: Some(Specifier::InlineBytes(bytes.to_vec())),
            ..Default::default()
        };
        let verification = match self.unverified {
            true => TrustChainVerification::AcceptUntrusted,
            false => TrustChainVerification::VerifyTrustChain,
        };
        envoy::Secret {
            name: name.to_owned(),
            r#type: Some(Type::ValidationContext(envoy::CertificateValidationContext {
                trusted_ca: self.authorities.as_ref().map(inline),
                crl: self.revoked.as_ref().map(inline),
                only_verify_leaf_cert_crl: self.leaf_only,
                trust_chain_verification: verification.into(),
                ..Default::default()
            })),
        }
        .encode_to_vec()
    }
}

impl ForwardedDetails {
    /// Writes the forwarded certificate details into a connection manager; the header that clients send themselves is
    /// removed.
    pub fn apply(self, manager: &mut HttpConnectionManager) {
        manager.forward_client_cert_details = ForwardClientCertDetails::SanitizeSet.into();
        manager.set_current_client_cert_details = Some(SetCurrentClientCertDetails {
            subject: Some(BoolValue { value: self.subject }),
            cert: self.cert,
            chain: self.chain,
            dns: self.dns,
            uri: self.uri,
            ..Default::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn whatever_differs_gives_another_name() {
        let key = |name: &str| ObjectKey::new("", "Secret", "shop", name);
        let plain = ClientValidationContext {
            owner: key("one"),
            authorities: Some((key("ca"), Bytes::from_static(b"a"))),
            besides: Vec::new(),
            revoked: None,
            leaf_only: false,
            unverified: false,
        };
        let all = [
            plain.clone(),
            ClientValidationContext { owner: key("two"), ..plain.clone() },
            ClientValidationContext { authorities: None, ..plain.clone() },
            ClientValidationContext { authorities: Some((key("ca"), Bytes::from_static(b"b"))), ..plain.clone() },
            ClientValidationContext { revoked: Some((key("ca"), Bytes::from_static(b"a"))), ..plain.clone() },
            ClientValidationContext { leaf_only: true, ..plain.clone() },
            ClientValidationContext { unverified: true, ..plain.clone() },
        ];
        let names: BTreeSet<String> = all.iter().map(ClientValidationContext::name).collect();
        assert_eq!(names.len(), all.len());
    }
}
