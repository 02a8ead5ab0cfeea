//! Public keys for the verification of tokens: a JSON Web Key Set (RFC 7517).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::signature::{Algorithm, sequence};

/// Maximum size of a key set, in bytes.
pub const KEY_SET_BYTES_MAX: usize = 256 << 10;
/// Maximum number of keys that are read from a key set.
pub const TOKEN_KEYS_MAX: usize = 64;

/// Public keys of one issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerificationKeys(Vec<VerificationKey>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct VerificationKey {
    id: Option<String>,
    /// The `alg` of the key: the only algorithm that the key may be used with. `None` if the key set does not specify
    /// it.
    only: Option<String>,
    material: Material,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Rsa(Vec<u8>),
    P256(Vec<u8>),
    P384(Vec<u8>),
}

/// Reason why a key set cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysFault {
    /// The key set exceeds [`KEY_SET_BYTES_MAX`].
    #[error("the key set is larger than {KEY_SET_BYTES_MAX} bytes")]
    Large,
    /// The content is not a JSON Web Key Set.
    #[error("not a JSON Web Key Set: {0}")]
    Unreadable(String),
    /// The key set contains no usable key.
    #[error("the key set has no usable key: supported are RSA, P-256 and P-384 keys for signatures")]
    Empty,
}

#[derive(Deserialize)]
struct JsonWebKeySet {
    keys: Vec<JsonWebKey>,
}

#[derive(Deserialize)]
struct JsonWebKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl VerificationKeys {
    /// Parses a key set. Keys of other types or for other purposes are ignored.
    ///
    /// # Errors If the content is not a key set, or contains no usable key.
    pub fn parse(json: &[u8]) -> Result<Self, KeysFault> {
        if json.len() > KEY_SET_BYTES_MAX {
            return Err(KeysFault::Large);
        }
        let document: JsonWebKeySet =
            serde_json::from_slice(json).map_err(|error| KeysFault::Unreadable(error.to_string()))?;
        let keys: Vec<VerificationKey> =
            document.keys.into_iter().take(TOKEN_KEYS_MAX).filter_map(VerificationKey::of).collect();
        if keys.is_empty() { Err(KeysFault::Empty) } else { Ok(Self(keys)) }
    }

    /// Returns the number of keys.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Checks that one of the keys signed the message. If the token names a key (`kid`), only this key is used.
    pub(super) fn signed(&self, id: Option<&str>, name: &str, algorithm: Algorithm, message: &[u8], by: &[u8]) -> bool {
        let fits = |key: &&VerificationKey| {
            (id.is_none() || key.id.as_deref() == id) && key.only.as_deref().is_none_or(|only| only == name)
        };
        self.0.iter().filter(fits).any(|key| match (&key.material, algorithm) {
            (Material::Rsa(key), Algorithm::Rs256 | Algorithm::Rs384 | Algorithm::Rs512)
            | (Material::P256(key), Algorithm::Es256)
            | (Material::P384(key), Algorithm::Es384) => algorithm.is_signed(key, message, by),
            _ => false,
        })
    }
}

impl VerificationKey {
    fn of(entry: JsonWebKey) -> Option<Self> {
        if entry.purpose.is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let bytes = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok();
        let point = |length: usize| {
            let (x, y) = (bytes(entry.x.clone())?, bytes(entry.y.clone())?);
            // Uncompressed form of a point (SEC 1).
            (x.len() == length && y.len() == length).then(|| [&[4], &*x, &*y].concat())
        };
        let material = match (entry.kty.as_str(), entry.crv.as_deref()) {
            ("RSA", _) => Material::Rsa(sequence(&[&bytes(entry.n)?, &bytes(entry.e)?])),
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            _ => return None,
        };
        Some(Self { id: entry.kid, only: entry.alg, material })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_cannot_be_used_are_passed_over_and_a_set_of_such_is_an_error() {
        let b = |length: usize| URL_SAFE_NO_PAD.encode(vec![7; length]);
        let good = format!(r#"{{"kty":"RSA","n":"{}","e":"AQAB","kid":"r"}}"#, b(256));
        let bad = [
            r#"{"kty":"oct","k":"c2VjcmV0"}"#.to_owned(),
            r#"{"kty":"RSA","n":"!!","e":"AQAB"}"#.to_owned(),
            format!(r#"{{"kty":"EC","crv":"P-256","x":"{}","y":"{}"}}"#, b(32), b(31)),
            format!(r#"{{"kty":"EC","crv":"P-521","x":"{}","y":"{}"}}"#, b(66), b(66)),
            format!(r#"{{"kty":"RSA","use":"enc","n":"{}","e":"AQAB"}}"#, b(256)),
        ];
        let set = |entries: &[String]| format!(r#"{{"keys":[{}]}}"#, entries.join(","));
        assert_eq!(VerificationKeys::parse(set(&bad).as_bytes()), Err(KeysFault::Empty));
        let mixed = VerificationKeys::parse(set(&[&bad[..], std::slice::from_ref(&good)].concat()).as_bytes()).unwrap();
        assert_eq!(mixed.count(), 1);
        let many = VerificationKeys::parse(set(&vec![good; TOKEN_KEYS_MAX + 1]).as_bytes()).unwrap();
        assert_eq!(many.count(), TOKEN_KEYS_MAX);
        for text in ["", "[]", "{}", "null", r#"{"keys":{}}"#] {
            assert!(matches!(VerificationKeys::parse(text.as_bytes()), Err(KeysFault::Unreadable(_))), "{text}");
        }
        assert_eq!(VerificationKeys::parse(&vec![b' '; KEY_SET_BYTES_MAX + 1]), Err(KeysFault::Large));
    }
}
