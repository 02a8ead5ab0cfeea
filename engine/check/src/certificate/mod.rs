//! Validation of TLS certificates and keys from Secrets, by the rules of Envoy (BoringSSL).
//!
//! A pair that Envoy refuses takes its listener out of service, and the error message of Envoy may contain the private
//! key. So a pair is only sent when it parses, has a key type that Envoy supports, and its key belongs to its
//! certificate. The rules were measured against Envoy with pairs of every kind. There is no clock here: Envoy serves
//! expired certificates, and the validity is returned as data.
//!
//! No error or `Debug` text contains data of a private key.

mod bundle;
mod chain;
mod clients;
mod curve;
mod der;
mod key;
mod leaf;
mod pem;
mod public;
mod summary;
mod validity;

use std::fmt;

pub use bundle::{Bundle, BundleFault, check_ca_bundle};
pub use clients::{REVOCATIONS_BYTES_MAX, check_client_authorities, check_revocations};
pub use pem::PemFault;
pub use public::{PublicKeyFault, json_web_key};
pub use summary::{CertificateSummary, summaries};
pub use validity::{ChainPosition, DateFault, EXPIRY_NOTICE_SECONDS, Validity};

/// Maximum size of a certificate chain, in bytes.
pub const CHAIN_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of certificates in a chain.
pub const CHAIN_CERTIFICATES_MAX: usize = 32;
/// Maximum size of a private key, in bytes.
pub const KEY_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of a bundle of certificate authorities, in bytes.
pub const BUNDLE_BYTES_MAX: usize = 1024 * 1024;
/// Minimum size of an RSA key, in bits (Envoy: "only RSA certificates with 2048-bit or larger keys are supported").
pub const RSA_BITS_MIN: usize = 2048;
/// Maximum size of an RSA key, in bits (the limit of BoringSSL).
pub const RSA_BITS_MAX: usize = 16 * 1024;

/// Properties of a valid pair of certificate and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Validity of the server certificate together with that of its issuers in the chain.
    pub validity: Validity,
    /// DNS names (in lower case) and IP addresses of the subject alternative name extension; the common name of a
    /// certificate without this extension.
    pub names: Vec<String>,
    /// Kind of the key.
    pub key: KeyKind,
    /// Number of certificates in the chain, including that of the server.
    pub chain: usize,
}

/// A kind of key that Envoy supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA, with the length of its modulus.
    Rsa {
        /// Bits of the modulus.
        bits: usize,
    },
    /// ECDSA on NIST P-256.
    EcdsaP256,
    /// ECDSA on NIST P-384.
    EcdsaP384,
    /// ECDSA on NIST P-521.
    EcdsaP521,
    /// Ed25519.
    Ed25519,
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rsa { bits } => write!(f, "RSA {bits}"),
            Self::EcdsaP256 => f.write_str("ECDSA P-256"),
            Self::EcdsaP384 => f.write_str("ECDSA P-384"),
            Self::EcdsaP521 => f.write_str("ECDSA P-521"),
            Self::Ed25519 => f.write_str("Ed25519"),
        }
    }
}

/// Reason why a certificate, a key or a bundle cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    /// A text larger than its limit.
    #[error("the {what} has {bytes} bytes; at most {limit} are allowed")]
    Large {
        /// "certificate", "private key" or "bundle".
        what: &'static str,
        /// Size of the text.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The text is not valid PEM.
    #[error("the {what} is not valid PEM: {fault}")]
    Pem {
        /// "certificate", "private key" or "bundle".
        what: &'static str,
        /// The error.
        fault: PemFault,
    },
    /// The text has no certificate block.
    #[error("the {what} has no \"-----BEGIN CERTIFICATE-----\" block at the start of a line")]
    NoCertificate {
        /// "certificate" or "bundle".
        what: &'static str,
    },
    /// Too many certificates.
    #[error("the chain has {certificates} certificates; at most {CHAIN_CERTIFICATES_MAX} are allowed")]
    LongChain {
        /// Number of certificates.
        certificates: usize,
    },
    /// A block that is not an X.509 certificate.
    #[error("certificate {position} of the {what} cannot be read: it is no X.509 certificate")]
    Certificate {
        /// "chain" or "bundle".
        what: &'static str,
        /// Position of the certificate, from 1.
        position: usize,
    },
    /// The text has no certificate revocation list.
    #[error("the revocation list has no \"-----BEGIN X509 CRL-----\" block at the start of a line")]
    NoRevocations,
    /// A block that is not a valid certificate revocation list.
    #[error("revocation list {position} cannot be read: it is no X.509 certificate revocation list")]
    Revocations {
        /// Position of the list, from 1.
        position: usize,
    },
    /// A private key in a text that must not contain one.
    #[error("the {what} contains a private key; remove it")]
    HoldsKey {
        /// "bundle" or "revocation list".
        what: &'static str,
    },
    /// A kind of key that Envoy does not support.
    #[error(
        "the certificate has a key of kind {kind}, which Envoy does not support; use RSA with 2048 bits or more, \
         ECDSA on P-256, P-384 or P-521, or Ed25519"
    )]
    KeyKind {
        /// The kind.
        kind: String,
    },
    /// An RSA key with an unsupported size.
    #[error("the certificate has an RSA key of {bits} bits; the proxy serves {RSA_BITS_MIN} to {RSA_BITS_MAX} bits")]
    RsaBits {
        /// Bits of the modulus.
        bits: usize,
    },
    /// An ECDSA certificate with a key usage that forbids signing of handshakes.
    #[error(
        "the certificate's key usage does not include digitalSignature, which an ECDSA certificate of a server needs"
    )]
    KeyUsage,
    /// The text has no key block.
    #[error("the private key has no \"-----BEGIN PRIVATE KEY-----\" block (or RSA or EC PRIVATE KEY)")]
    NoKey,
    /// An encrypted key.
    #[error("the private key is encrypted; store it without a passphrase")]
    Encrypted,
    /// A key that cannot be read.
    #[error("the private key cannot be read: it is damaged or of a kind that the proxy does not serve")]
    Key,
    /// A PKCS #8 structure that Envoy cannot read.
    #[error(
        "the private key is in a newer format (RFC 5958) that the proxy does not read; write it again with \"openssl pkey\""
    )]
    KeyVersion,
    /// Key and certificate do not belong together.
    #[error(
        "the private key does not belong to the certificate; if tls.crt holds a chain, the server's own certificate must come first"
    )]
    Mismatch,
    /// A key without its public key, on a curve for which the public key cannot be computed here.
    #[error(
        "the private key does not contain its public key, so it cannot be compared; write it again with \"openssl pkey\""
    )]
    NoPublicKey,
}

/// Checks the `tls.crt` and `tls.key` of a Secret of type `kubernetes.io/tls`, both as PEM text.
///
/// As in Envoy, the first certificate is that of the server, the first key counts, and text between blocks is ignored.
pub fn check_pair(certificate_pem: &[u8], key_pem: &[u8]) -> Result<Pair, CertificateFault> {
    let chain = certificates("certificate", certificate_pem, CHAIN_BYTES_MAX)?;
    if chain.len() > CHAIN_CERTIFICATES_MAX {
        return Err(CertificateFault::LongChain { certificates: chain.len() });
    }
    let first = chain.first().ok_or(CertificateFault::NoCertificate { what: "certificate" })?;
    let leaf = leaf::Leaf::read(first)?;
    let validity = chain::validity(&chain)?;
    within("private key", key_pem, KEY_BYTES_MAX)?;
    key::PrivateKey::read(key_pem)?.belongs_to(&leaf.public)?;
    Ok(Pair { validity, names: leaf.names, key: leaf.public.kind(), chain: chain.len() })
}

fn within(what: &'static str, text: &[u8], limit: usize) -> Result<(), CertificateFault> {
    if text.len() > limit { Err(CertificateFault::Large { what, bytes: text.len(), limit }) } else { Ok(()) }
}

/// Returns the contents of every certificate block.
fn certificates(what: &'static str, text: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, CertificateFault> {
    within(what, text, limit)?;
    let mut found = Vec::new();
    for section in pem::sections(text) {
        let section = section.map_err(|fault| CertificateFault::Pem { what, fault })?;
        if !["CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"].contains(&section.label) {
            continue;
        }
        if section.encrypted {
            return Err(CertificateFault::Pem { what, fault: PemFault::BlankLine { line: section.line } });
        }
        found.push(section.content);
    }
    if found.is_empty() { Err(CertificateFault::NoCertificate { what }) } else { Ok(found) }
}

#[cfg(test)]
mod tests;
