//! Private keys: parsing, and the check that a key belongs to a certificate.
//!
//! RSA keys are compared by modulus and exponent. Elliptic curve keys are checked by computing the public key, on the
//! curves that the cryptography library supports; on P-521, the public key inside the private key is compared.

use rustls::crypto::ring::sign::any_supported_type;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

use super::der::{self, Reader};
use super::leaf::{Curve, PublicKey};
use super::{CertificateFault, pem};

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// Sizes of RSA keys, in bytes, for which the cryptography library can check the inner consistency.
const RSA_CHECKED_BYTES: [usize; 3] = [256, 384, 512];
const F4: &[u8] = &[1, 0, 1];

/// The parts of a private key. Has no `Debug`.
pub(super) enum PrivateKey {
    /// The PKCS #1 structure, and its public parts.
    Rsa { pkcs1: Vec<u8>, public: PublicKey },
    /// The secret number, its curve where the key names one, and the public point where the key has one.
    Ec { secret: Vec<u8>, curve: Option<Vec<u8>>, point: Option<Vec<u8>> },
    /// The PKCS #8 structure.
    Ed25519 { pkcs8: Vec<u8> },
}

impl PrivateKey {
    /// Returns the first private key of a PEM text.
    pub(super) fn read(text: &[u8]) -> Result<Self, CertificateFault> {
        for section in pem::sections(text) {
            let section = section.map_err(|fault| CertificateFault::Pem { what: "private key", fault })?;
            if !section.label.ends_with("PRIVATE KEY") {
                continue;
            }
            if section.encrypted || section.label == "ENCRYPTED PRIVATE KEY" {
                return Err(CertificateFault::Encrypted);
            }
            let bytes = &section.content;
            let key = match section.label {
                "PRIVATE KEY" => None,
                "RSA PRIVATE KEY" => rsa(bytes),
                "EC PRIVATE KEY" => ec(bytes, None),
                _ => return Err(CertificateFault::Key),
            };
            // The other labels are also used for PKCS #8 keys, and BoringSSL reads those.
            return key.map_or_else(|| pkcs8(bytes), Ok);
        }
        Err(CertificateFault::NoKey)
    }

    /// Checks that this is the private key of `public`.
    pub(super) fn belongs_to(&self, public: &PublicKey) -> Result<(), CertificateFault> {
        match (self, public) {
            (Self::Rsa { pkcs1, public: own }, PublicKey::Rsa { modulus, exponent }) => {
                if own != public {
                    return Err(CertificateFault::Mismatch);
                }
                let can_be_checked = RSA_CHECKED_BYTES.contains(&modulus.len())
                    && modulus.first().is_some_and(|first| first & 0x80 != 0)
                    && exponent == F4;
                let key = PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(pkcs1.as_slice()));
                if can_be_checked && any_supported_type(&key).is_err() {
                    return Err(CertificateFault::Key);
                }
                Ok(())
            }
            (Self::Ec { secret, curve: own, point: inner }, PublicKey::Ec { curve, point }) => {
                if own.as_deref().is_some_and(|own| own != curve.identifier()) {
                    return Err(CertificateFault::Mismatch);
                }
                ec_belongs(secret, inner.as_deref(), *curve, point)
            }
            (Self::Ed25519 { pkcs8 }, PublicKey::Ed25519 { key }) => {
                let own = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8.as_slice()));
                let own = any_supported_type(&own).map_err(|_| CertificateFault::Key)?;
                // The encoded public key ends with the key itself.
                let belongs = own.public_key().is_some_and(|envelope| envelope.as_ref().ends_with(key));
                if belongs { Ok(()) } else { Err(CertificateFault::Mismatch) }
            }
            _ => Err(CertificateFault::Mismatch),
        }
    }
}

fn ec_belongs(secret: &[u8], inner: Option<&[u8]>, curve: Curve, point: &[u8]) -> Result<(), CertificateFault> {
    if inner.is_some_and(|inner| !same_point(inner, point)) {
        return Err(CertificateFault::Mismatch);
    }
    let uncompressed = [Some(point), inner].into_iter().flatten().find(|point| point.first() == Some(&4));
    match (curve, uncompressed) {
        (Curve::P256 | Curve::P384, Some(point)) => {
            let key = sec1(secret, curve, point);
            let key = PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key));
            any_supported_type(&key).map(|_| ()).map_err(|_| CertificateFault::Mismatch)
        }
        _ if inner.is_some() => Ok(()),
        _ => Err(CertificateFault::NoPublicKey),
    }
}

/// Returns whether two encodings (SEC 1 §2.3.3), compressed or not, are equal points.
fn same_point(left: &[u8], right: &[u8]) -> bool {
    fn compressed(point: &[u8]) -> Option<(bool, &[u8])> {
        let (form, coordinates) = point.split_first()?;
        match form {
            2 | 3 => Some((form & 1 == 1, coordinates)),
            4 => {
                let (x, y) = coordinates.split_at(coordinates.len() / 2);
                Some((y.last()? & 1 == 1, x))
            }
            _ => None,
        }
    }
    left == right || (left.len() != right.len() && compressed(left).is_some() && compressed(left) == compressed(right))
}

/// Returns an ECPrivateKey (RFC 5915) with the given public key.
fn sec1(secret: &[u8], curve: Curve, point: &[u8]) -> Vec<u8> {
    let mut bits = vec![0];
    bits.extend_from_slice(point);
    let parts = [
        der::element(der::INTEGER, &[1]),
        der::element(der::OCTET_STRING, secret),
        der::element(der::CONTEXT_0, &der::element(der::OBJECT_IDENTIFIER, curve.identifier())),
        der::element(der::CONTEXT_1, &der::element(der::BIT_STRING, &bits)),
    ];
    der::element(der::SEQUENCE, &parts.concat())
}

/// Parses a PrivateKeyInfo (RFC 5208).
fn pkcs8(bytes: &[u8]) -> Result<PrivateKey, CertificateFault> {
    let read = || {
        let mut fields = Reader::new(bytes).enter(der::SEQUENCE)?;
        let version = fields.unsigned()?;
        let algorithm = fields.enter(der::SEQUENCE)?;
        Some((version, algorithm, fields.next(der::OCTET_STRING)?))
    };
    let (version, mut algorithm, key) = read().ok_or(CertificateFault::Key)?;
    if !version.is_empty() {
        return Err(CertificateFault::KeyVersion);
    }
    let key = match algorithm.next(der::OBJECT_IDENTIFIER) {
        Some(RSA) => rsa(key),
        Some(EC) => algorithm.next(der::OBJECT_IDENTIFIER).and_then(|curve| ec(key, Some(curve))),
        Some(ED25519) => Some(PrivateKey::Ed25519 { pkcs8: bytes.to_vec() }),
        _ => None,
    };
    key.ok_or(CertificateFault::Key)
}

/// Parses an RSAPrivateKey (RFC 8017).
fn rsa(bytes: &[u8]) -> Option<PrivateKey> {
    let mut fields = Reader::new(bytes).enter(der::SEQUENCE)?;
    if !fields.unsigned()?.is_empty() {
        return None;
    }
    let (modulus, exponent) = (fields.unsigned()?.to_vec(), fields.unsigned()?.to_vec());
    // Private exponent, two primes, two exponents, coefficient.
    for _ in 0..6 {
        fields.unsigned()?;
    }
    Some(PrivateKey::Rsa { pkcs1: bytes.to_vec(), public: PublicKey::Rsa { modulus, exponent } })
}

/// Parses an ECPrivateKey (RFC 5915); the enclosing structure may specify the curve.
fn ec(bytes: &[u8], curve: Option<&[u8]>) -> Option<PrivateKey> {
    let mut fields = Reader::new(bytes).enter(der::SEQUENCE)?;
    if fields.unsigned()? != [1] {
        return None;
    }
    let secret = fields.next(der::OCTET_STRING)?.to_vec();
    let mut curve = curve.map(<[u8]>::to_vec);
    if let Some(mut parameters) = fields.enter(der::CONTEXT_0) {
        curve = Some(parameters.next(der::OBJECT_IDENTIFIER)?.to_vec());
    }
    let point = match fields.enter(der::CONTEXT_1) {
        Some(mut inner) => Some(inner.next(der::BIT_STRING)?.strip_prefix(&[0])?.to_vec()),
        None => None,
    };
    Some(PrivateKey::Ec { secret, curve, point })
}
