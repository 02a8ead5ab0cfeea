//! The certificate of a server: names, and a public key of a kind that Envoy supports.

use std::net::{Ipv4Addr, Ipv6Addr};

use x509_parser::asn1_rs::Tag;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey as ParsedKey;
use x509_parser::x509::{SubjectPublicKeyInfo, X509Version};

use super::{CertificateFault, KeyKind, RSA_BITS_MAX, RSA_BITS_MIN, der};

const ED25519: &str = "1.3.101.112";
const EC: &str = "1.2.840.10045.2.1";
const P256: &str = "1.2.840.10045.3.1.7";
const P384: &str = "1.3.132.0.34";
const P521: &str = "1.3.132.0.35";

/// The fields of a server certificate that the checks use.
pub(super) struct Leaf {
    pub(super) names: Vec<String>,
    pub(super) public: PublicKey,
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PublicKey {
    /// Modulus and exponent, without leading zeros.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// Curve and point (SEC 1, compressed or not).
    Ec { curve: Curve, point: Vec<u8> },
    /// The 32 bytes of an Ed25519 key.
    Ed25519 { key: Vec<u8> },
}

/// The curves that Envoy supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Curve {
    P256,
    P384,
    P521,
}

impl PublicKey {
    pub(super) fn kind(&self) -> KeyKind {
        match self {
            Self::Rsa { modulus, .. } => KeyKind::Rsa { bits: bits(modulus) },
            Self::Ec { curve: Curve::P256, .. } => KeyKind::EcdsaP256,
            Self::Ec { curve: Curve::P384, .. } => KeyKind::EcdsaP384,
            Self::Ec { curve: Curve::P521, .. } => KeyKind::EcdsaP521,
            Self::Ed25519 { .. } => KeyKind::Ed25519,
        }
    }
}

impl Leaf {
    pub(super) fn read(certificate: &[u8]) -> Result<Self, CertificateFault> {
        let unreadable = CertificateFault::Certificate { what: "chain", position: 1 };
        let Some(certificate) = parse(certificate) else { return Err(unreadable) };
        let public = public_key(certificate.public_key())?;
        let signs = match certificate.key_usage() {
            Ok(usage) => usage.is_none_or(|usage| usage.value.digital_signature()),
            Err(_) => return Err(unreadable),
        };
        if !signs && matches!(public, PublicKey::Ec { .. }) {
            return Err(CertificateFault::KeyUsage);
        }
        Ok(Self { names: names(&certificate), public })
    }
}

/// Returns the start and end of the validity of any certificate, in seconds since 1970; `None` where the certificate
/// cannot be parsed.
pub(super) fn validity(certificate: &[u8]) -> Option<(i64, i64)> {
    let validity = parse(certificate)?.validity().clone();
    Some((validity.not_before.timestamp(), validity.not_after.timestamp()))
}

/// Returns any certificate; `None` where it cannot be parsed.
pub(super) fn parse(certificate: &[u8]) -> Option<X509Certificate<'_>> {
    // Data after the certificate in its block ("TRUSTED CERTIFICATE" has settings there) is ignored.
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    has_fields_of_its_version(&certificate).then_some(certificate)
}

/// Checks that a certificate has no field that its version does not have, which BoringSSL refuses (RFC 5280, section
/// 4.1.2.1): extensions are of version 3, unique identifiers of versions 2 and 3.
fn has_fields_of_its_version(certificate: &X509Certificate<'_>) -> bool {
    let has_identifiers = certificate.issuer_uid.is_some() || certificate.subject_uid.is_some();
    match certificate.version() {
        X509Version::V1 => certificate.extensions().is_empty() && !has_identifiers,
        X509Version::V2 => certificate.extensions().is_empty(),
        version => version == X509Version::V3,
    }
}

fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let extension = match certificate.subject_alternative_name() {
        Ok(Some(extension)) => extension,
        // Envoy takes the common name of a certificate without the extension.
        Ok(None) => {
            let common = certificate.subject().iter_common_name();
            return common.filter_map(|name| Some(name.as_str().ok()?.to_ascii_lowercase())).collect();
        }
        Err(_) => return Vec::new(),
    };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => <[u8; 4]>::try_from(*bytes)
            .map(|v4| Ipv4Addr::from(v4).to_string())
            .or_else(|_| <[u8; 16]>::try_from(*bytes).map(|v6| Ipv6Addr::from(v6).to_string()))
            .ok(),
        _ => None,
    };
    extension.value.general_names.iter().filter_map(name).collect()
}

/// Returns the key of a certificate or of a PEM text, of a kind that Envoy supports.
pub(super) fn public_key(info: &SubjectPublicKeyInfo<'_>) -> Result<PublicKey, CertificateFault> {
    let algorithm = info.algorithm.algorithm.to_id_string();
    let bytes: &[u8] = &info.subject_public_key.data;
    match info.parsed() {
        Ok(ParsedKey::RSA(key)) => {
            let modulus = der::without_leading_zeros(key.modulus).to_vec();
            let bits = bits(&modulus);
            if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
                return Err(CertificateFault::RsaBits { bits });
            }
            Ok(PublicKey::Rsa { modulus, exponent: der::without_leading_zeros(key.exponent).to_vec() })
        }
        _ if algorithm == EC => {
            let parameters = info.algorithm.parameters.as_ref();
            let named = parameters.filter(|parameters| parameters.tag() == Tag::Oid);
            let name = named.and_then(|any| any.as_oid().ok()).map(|oid| oid.to_id_string());
            let curve = name.as_deref().and_then(Curve::from_identifier).ok_or_else(|| {
                let name = name.as_deref().unwrap_or("with explicit parameters");
                CertificateFault::KeyKind { kind: format!("ECDSA on curve {name}") }
            })?;
            Ok(PublicKey::Ec { curve, point: bytes.to_vec() })
        }
        _ if algorithm == ED25519 => Ok(PublicKey::Ed25519 { key: bytes.to_vec() }),
        _ => Err(CertificateFault::KeyKind { kind: algorithm }),
    }
}

impl Curve {
    fn from_identifier(identifier: &str) -> Option<Self> {
        match identifier {
            P256 => Some(Self::P256),
            P384 => Some(Self::P384),
            P521 => Some(Self::P521),
            _ => None,
        }
    }

    /// Returns the content of the OBJECT IDENTIFIER of the curve.
    pub(super) fn identifier(self) -> &'static [u8] {
        match self {
            Self::P256 => &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
            Self::P384 => &[0x2b, 0x81, 0x04, 0x00, 0x22],
            Self::P521 => &[0x2b, 0x81, 0x04, 0x00, 0x23],
        }
    }
}

/// Returns the length of a number without leading zero bytes, in bits.
pub(super) fn bits(number: &[u8]) -> usize {
    number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}
