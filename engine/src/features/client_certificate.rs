//! Certificates that clients show: who may come in with one, and what back ends are told of it.
//!
//! What they are checked against is a resource of its own, so that an Envoy which refuses it shuts one host and no
//! other. Its name has everything in it that makes two of them differ: what was in force before is never kept in the
//! place of what is desired.

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

/// What is asked of the clients of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// Do clients without one stay outside?
    pub required: bool,
    /// What they are checked against.
    pub trust: Trust,
    /// What back ends are told of them; nothing where unset.
    pub told: Option<Told>,
}

/// What certificates of clients are checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The object that asks for it.
    pub owner: ObjectKey,
    /// The authorities and where they come from.
    pub authorities: Option<(ObjectKey, Bytes)>,
    /// Other objects that some of them come from.
    pub besides: Vec<ObjectKey>,
    /// Lists of revoked certificates and where they come from.
    pub revoked: Option<(ObjectKey, Bytes)>,
    /// Are only clients' own certificates looked up there?
    pub leaf_only: bool,
    /// Are certificates taken that are not trusted?
    pub unverified: bool,
}

/// What back ends are told of a client's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Its subject.
    pub subject: bool,
    /// All of it.
    pub cert: bool,
    /// All of it, with its chain.
    pub chain: bool,
    /// Its DNS names.
    pub dns: bool,
    /// Its URI.
    pub uri: bool,
}

impl Trust {
    /// The name of its resource.
    pub(crate) fn name(&self) -> String {
        let label: String = Version::of(&self.encode("")).to_string().chars().take(16).collect();
        names::client_trust(&self.owner, &label)
    }

    /// As a resource.
    pub(crate) fn resource(&self) -> Resource {
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

impl Told {
    /// Writes into a connection manager what back ends are told; what clients say of themselves is taken away.
    pub(crate) fn apply(self, manager: &mut HttpConnectionManager) {
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
        let plain = Trust {
            owner: key("one"),
            authorities: Some((key("ca"), Bytes::from_static(b"a"))),
            besides: Vec::new(),
            revoked: None,
            leaf_only: false,
            unverified: false,
        };
        let all = [
            plain.clone(),
            Trust { owner: key("two"), ..plain.clone() },
            Trust { authorities: None, ..plain.clone() },
            Trust { authorities: Some((key("ca"), Bytes::from_static(b"b"))), ..plain.clone() },
            Trust { revoked: Some((key("ca"), Bytes::from_static(b"a"))), ..plain.clone() },
            Trust { leaf_only: true, ..plain.clone() },
            Trust { unverified: true, ..plain.clone() },
        ];
        let names: BTreeSet<String> = all.iter().map(Trust::name).collect();
        assert_eq!(names.len(), all.len());
    }
}
