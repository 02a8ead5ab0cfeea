//! A public key in PEM, as a JSON Web Key (RFC 7517) for the verification of tokens.
//!
//! Only the kinds of keys that Envoy verifies tokens with are read. A certificate is no public key here, and no private
//! key is ever converted: the fault names the command that writes the public key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use x509_parser::prelude::FromDer;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::curve;
use super::der::{self, Reader};
use super::leaf::{self, Curve, PublicKey};
use super::{CertificateFault, KEY_BYTES_MAX, PemFault, RSA_BITS_MAX, RSA_BITS_MIN, pem};

/// Maximum size of the public exponent of an RSA key, in bytes (BoringSSL reads 33 bits).
const EXPONENT_BYTES_MAX: usize = 4;
/// Size of an Ed25519 key, in bytes.
const ED25519_BYTES: usize = 32;
/// First byte of an uncompressed point (SEC 1 §2.3.3).
const UNCOMPRESSED: u8 = 4;

/// Reason why a PEM text is not the public key of an issuer of tokens. The text of an error contains nothing of a key,
/// and no semicolon, which separates the faults in a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublicKeyFault {
    /// A text larger than its limit.
    #[error("the PEM text has {bytes} bytes, and at most {KEY_BYTES_MAX} are allowed")]
    Large {
        /// Size of the text.
        bytes: usize,
    },
    /// The text is not valid PEM.
    #[error("it is not valid PEM: {0}")]
    Pem(#[from] PemFault),
    /// The text has no block, or more than one.
    #[error(
        "it has {blocks} PEM blocks instead of one: write one public key, or all keys as a JSON Web Key Set (JWKS)"
    )]
    Blocks {
        /// Number of blocks.
        blocks: usize,
    },
    /// A private key.
    #[error("it contains a private key: replace it by its public key, the output of \"openssl pkey -pubout\"")]
    Private,
    /// A certificate.
    #[error("it is a certificate: replace it by its public key, the output of \"openssl x509 -pubkey -noout\"")]
    Certificate,
    /// A block of another kind, or a damaged key.
    #[error("the PEM block is not a public key of kind RSA, EC (P-256, P-384, P-521) or Ed25519, or it is damaged")]
    Unreadable,
    /// An RSA key of an unsupported size.
    #[error("it is an RSA key of {bits} bits, and {RSA_BITS_MIN} to {RSA_BITS_MAX} bits are allowed")]
    RsaBits {
        /// Bits of the modulus.
        bits: usize,
    },
}

/// Returns the public key of a PEM text as a JSON Web Key, with the algorithm of its kind: RS256, ES256, ES384, ES512 or
/// EdDSA.
pub fn json_web_key(text: &[u8]) -> Result<Value, PublicKeyFault> {
    if text.len() > KEY_BYTES_MAX {
        return Err(PublicKeyFault::Large { bytes: text.len() });
    }
    let mut sections = pem::sections(text).collect::<Result<Vec<_>, _>>()?;
    if sections.iter().any(|section| section.label.ends_with("PRIVATE KEY")) {
        return Err(PublicKeyFault::Private);
    }
    let blocks = sections.len();
    let (Some(section), true) = (sections.pop(), blocks == 1) else { return Err(PublicKeyFault::Blocks { blocks }) };
    if section.label.ends_with("CERTIFICATE") {
        return Err(PublicKeyFault::Certificate);
    }
    // As in kgateway, the content decides and not the label.
    let key = match pkcs1(&section.content) {
        Some(key) => key,
        None => subject_public_key(&section.content)?,
    };
    encode(&key)
}

/// Parses an RSAPublicKey (RFC 8017).
fn pkcs1(bytes: &[u8]) -> Option<PublicKey> {
    let mut outer = Reader::new(bytes);
    let mut fields = outer.enter(der::SEQUENCE)?;
    let (modulus, exponent) = (fields.unsigned()?.to_vec(), fields.unsigned()?.to_vec());
    (fields.is_empty() && outer.is_empty()).then_some(PublicKey::Rsa { modulus, exponent })
}

/// Parses a SubjectPublicKeyInfo (RFC 5280).
fn subject_public_key(bytes: &[u8]) -> Result<PublicKey, PublicKeyFault> {
    let (rest, info) = SubjectPublicKeyInfo::from_der(bytes).map_err(|_| PublicKeyFault::Unreadable)?;
    if !rest.is_empty() {
        return Err(PublicKeyFault::Unreadable);
    }
    leaf::public_key(&info).map_err(|fault| match fault {
        CertificateFault::RsaBits { bits } => PublicKeyFault::RsaBits { bits },
        _ => PublicKeyFault::Unreadable,
    })
}

fn encode(key: &PublicKey) -> Result<Value, PublicKeyFault> {
    let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    match key {
        PublicKey::Rsa { modulus, exponent } => {
            let bits = leaf::bits(modulus);
            if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
                return Err(PublicKeyFault::RsaBits { bits });
            }
            let is_odd = exponent.last().is_some_and(|last| last & 1 == 1);
            let is_modulus_odd = modulus.last().is_some_and(|last| last & 1 == 1);
            if !is_modulus_odd || !is_odd || exponent.as_slice() == [1] || exponent.len() > EXPONENT_BYTES_MAX {
                return Err(PublicKeyFault::Unreadable);
            }
            Ok(json!({"kty": "RSA", "use": "sig", "alg": "RS256", "n": number(modulus), "e": number(exponent)}))
        }
        PublicKey::Ec { curve, point } => {
            let (name, algorithm, bytes) = match *curve {
                Curve::P256 => ("P-256", "ES256", 32),
                Curve::P384 => ("P-384", "ES384", 48),
                Curve::P521 => ("P-521", "ES512", 66),
            };
            let coordinates = point.strip_prefix(&[UNCOMPRESSED]).filter(|both| both.len() == 2 * bytes);
            let (x, y) = coordinates.and_then(|both| both.split_at_checked(bytes)).ok_or(PublicKeyFault::Unreadable)?;
            // Envoy refuses the whole listener for a point that is not on its curve.
            if !curve::is_on_curve(*curve, x, y) {
                return Err(PublicKeyFault::Unreadable);
            }
            Ok(json!({"kty": "EC", "use": "sig", "alg": algorithm, "crv": name, "x": number(x), "y": number(y)}))
        }
        PublicKey::Ed25519 { key } if key.len() == ED25519_BYTES => {
            Ok(json!({"kty": "OKP", "use": "sig", "alg": "EdDSA", "crv": "Ed25519", "x": number(key)}))
        }
        PublicKey::Ed25519 { .. } => Err(PublicKeyFault::Unreadable),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{KeyPair, PublicKeyData};

    use super::*;

    /// Of `openssl rsa -in rsa2048.key -RSAPublicKey_out`; the exponent is 65537.
    const PKCS1: &str = include_str!("fixtures/rsa2048-pkcs1.pub");
    /// Of `openssl pkey -in rsa2048.key -pubout`.
    const RSA: &str = include_str!("fixtures/rsa2048.pub");

    fn label(text: &str, label: &str) -> String {
        text.replace("PUBLIC KEY", label)
    }

    #[test]
    fn public_keys_of_every_kind_are_read() {
        for (algorithm, expected) in [
            (&rcgen::PKCS_ECDSA_P256_SHA256, ("EC", "P-256", "ES256")),
            (&rcgen::PKCS_ECDSA_P384_SHA384, ("EC", "P-384", "ES384")),
            (&rcgen::PKCS_ED25519, ("OKP", "Ed25519", "EdDSA")),
        ] {
            let pair = KeyPair::generate_for(algorithm).unwrap();
            let key = json_web_key(pair.public_key_pem().as_bytes()).unwrap();
            assert_eq!((key["kty"].as_str(), key["crv"].as_str(), key["alg"].as_str()), {
                let (kty, crv, alg) = expected;
                (Some(kty), Some(crv), Some(alg))
            });
            let raw = pair.der_bytes();
            let part = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap_or_default()).unwrap();
            let joined = [part("x"), part("y")].concat();
            assert!(raw.ends_with(&joined), "{key}");
        }
        let key = json_web_key(RSA.as_bytes()).unwrap();
        assert_eq!((key["alg"].as_str(), key["e"].as_str()), (Some("RS256"), Some("AQAB")));
        assert_eq!(URL_SAFE_NO_PAD.decode(key["n"].as_str().unwrap()).unwrap().len(), 256);
        assert_eq!(json_web_key(PKCS1.as_bytes()), Ok(key.clone()));
        assert_eq!(json_web_key(label(RSA, "KEY OF AN ISSUER").as_bytes()), Ok(key));
    }

    #[test]
    fn what_is_no_public_key_is_refused() {
        let pair = KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec![]).unwrap().self_signed(&pair).unwrap().pem();
        let rows = [
            (pair.serialize_pem(), PublicKeyFault::Private),
            (format!("{RSA}{}", pair.serialize_pem()), PublicKeyFault::Private),
            (certificate, PublicKeyFault::Certificate),
            (String::new(), PublicKeyFault::Blocks { blocks: 0 }),
            (format!("{RSA}{PKCS1}"), PublicKeyFault::Blocks { blocks: 2 }),
            (" ".repeat(KEY_BYTES_MAX + 1), PublicKeyFault::Large { bytes: KEY_BYTES_MAX + 1 }),
            ("-----BEGIN PUBLIC KEY-----\nAQID\n-----END PUBLIC KEY-----\n".to_owned(), PublicKeyFault::Unreadable),
            ("-----BEGIN PUBLIC KEY-----\nAQID\n".to_owned(), PublicKeyFault::Pem(PemFault::NoEnd { line: 1 })),
        ];
        for (text, fault) in rows {
            assert_eq!(json_web_key(text.as_bytes()), Err(fault), "{text}");
        }
    }

    #[test]
    fn keys_that_envoy_refuses_are_refused() {
        let rsa =
            |bytes: usize, exponent: &[u8]| PublicKey::Rsa { modulus: vec![0xff; bytes], exponent: exponent.into() };
        assert!(encode(&rsa(256, &[1, 0, 1])).is_ok());
        assert_eq!(encode(&rsa(128, &[1, 0, 1])), Err(PublicKeyFault::RsaBits { bits: 1024 }));
        for exponent in [&[1][..], &[2], &[], &[1, 0, 0, 0, 1]] {
            assert_eq!(encode(&rsa(256, exponent)), Err(PublicKeyFault::Unreadable), "{exponent:?}");
        }
        let even = PublicKey::Rsa { modulus: [vec![0xff; 255], vec![0xfe]].concat(), exponent: vec![1, 0, 1] };
        assert_eq!(encode(&even), Err(PublicKeyFault::Unreadable));
        for point in [vec![4; 65], vec![2; 33], vec![4; 64], vec![4; 66], vec![]] {
            assert_eq!(encode(&PublicKey::Ec { curve: Curve::P256, point }), Err(PublicKeyFault::Unreadable));
        }
        assert_eq!(encode(&PublicKey::Ed25519 { key: vec![1; 31] }), Err(PublicKeyFault::Unreadable));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = pkcs1(&bytes);
            let _ = subject_public_key(&bytes).and_then(|key| encode(&key));
        }
    }
}
