//! Signatures of tokens: the algorithms of RFC 7518, mapped to the X.509 identifiers that rustls verifies.

use rustls_pki_types::{AlgorithmIdentifier, SignatureVerificationAlgorithm, alg_id};

/// Supported signature algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Es256,
    Es384,
}

impl Algorithm {
    /// Returns the algorithm with this name. Algorithms without a key (`none`) or with a shared secret are not
    /// supported.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            _ => return None,
        })
    }

    /// Length of one of the two numbers of an elliptic curve signature, in bytes; `None` for RSA.
    pub(super) fn coordinate(self) -> Option<usize> {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 => None,
            Self::Es256 => Some(32),
            Self::Es384 => Some(48),
        }
    }

    fn ids(self) -> (AlgorithmIdentifier, AlgorithmIdentifier) {
        match self {
            Self::Rs256 => (alg_id::RSA_ENCRYPTION, alg_id::RSA_PKCS1_SHA256),
            Self::Rs384 => (alg_id::RSA_ENCRYPTION, alg_id::RSA_PKCS1_SHA384),
            Self::Rs512 => (alg_id::RSA_ENCRYPTION, alg_id::RSA_PKCS1_SHA512),
            Self::Es256 => (alg_id::ECDSA_P256, alg_id::ECDSA_SHA256),
            Self::Es384 => (alg_id::ECDSA_P384, alg_id::ECDSA_SHA384),
        }
    }

    /// Checks that the owner of the public key signed the message.
    pub(super) fn is_signed(self, public_key: &[u8], message: &[u8], signature: &[u8]) -> bool {
        let (key, how) = self.ids();
        let all = rustls::crypto::ring::default_provider().signature_verification_algorithms.all;
        let verifies = |algorithm: &&&dyn SignatureVerificationAlgorithm| {
            algorithm.public_key_alg_id() == key && algorithm.signature_alg_id() == how
        };
        let Some(algorithm) = all.iter().find(verifies) else { return false };
        match self.coordinate() {
            None => algorithm.verify_signature(public_key, message, signature).is_ok(),
            Some(length) if signature.len() == 2 * length => {
                let (r, s) = signature.split_at(length);
                algorithm.verify_signature(public_key, message, &sequence(&[r, s])).is_ok()
            }
            Some(_) => false,
        }
    }
}

/// Encodes a sequence of positive integers in DER; each integer is given by its bytes.
pub(super) fn sequence(integers: &[&[u8]]) -> Vec<u8> {
    let content: Vec<u8> = integers.iter().flat_map(|integer| integer_der(integer)).collect();
    element(0x30, &content)
}

fn integer_der(bytes: &[u8]) -> Vec<u8> {
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let significant = bytes.get(first..).unwrap_or_default();
    // A leading one bit would mark the integer as negative, and zero needs one byte.
    let needs_zero = significant.first().is_none_or(|byte| byte & 0x80 != 0);
    let content: Vec<u8> = needs_zero.then_some(0).into_iter().chain(significant.iter().copied()).collect();
    element(0x02, &content)
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let first = length.iter().position(|byte| *byte != 0).unwrap_or(length.len() - 1);
    let length = length.get(first..).unwrap_or_default();
    let mut der = vec![tag];
    match length {
        [short] if *short < 0x80 => der.push(*short),
        // The length has eight bytes at most.
        long => {
            der.push(0x80 | u8::try_from(long.len()).unwrap_or(8));
            der.extend(long);
        }
    }
    der.extend(content);
    der
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_as_der_wants_them() {
        assert_eq!(sequence(&[&[0, 0, 1], &[0x80]]), [0x30, 7, 2, 1, 1, 2, 2, 0, 0x80]);
        assert_eq!(sequence(&[&[], &[0]]), [0x30, 6, 2, 1, 0, 2, 1, 0]);
        let long = sequence(&[&[1; 200]]);
        assert_eq!(long[..6], [0x30, 0x81, 203, 2, 0x81, 200]);
        let longer = sequence(&[&[1; 300]]);
        assert_eq!(longer[..8], [0x30, 0x82, 1, 48, 2, 0x82, 1, 44]);
    }

    #[test]
    fn algorithms_without_a_public_key_are_none() {
        for name in ["none", "None", "HS256", "HS512", "rs256", "", "PS256"] {
            assert_eq!(Algorithm::named(name), None, "{name}");
        }
    }
}
