//! Sealing: sensitive payloads are encrypted and authenticated on the disk, bound to their place and content.

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};

use super::error::SledError;
use crate::record::Digest;

const NONCE_BYTES: usize = 24;

/// The key for sealing sensitive payloads.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// Returns a key of these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// Never shows the key.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Seals and unseals payloads with keys that are derived from the key, one for each purpose.
#[derive(Clone)]
pub(crate) struct Sealer {
    sealing: [u8; 32],
    naming: [u8; 32],
}

impl Sealer {
    pub(crate) fn new(key: &Key) -> Self {
        Self {
            sealing: blake3::derive_key("holdfast 2026 store: sealing of payloads", &key.0),
            naming: blake3::derive_key("holdfast 2026 store: digests of sealed payloads", &key.0),
        }
    }

    /// Returns the digest that identifies a sealed payload. The digest is keyed: a plain one would allow an attacker to
    /// test guesses.
    pub(crate) fn digest(&self, payload: &[u8]) -> Digest {
        Digest::from_bytes(*blake3::keyed_hash(&self.naming, payload).as_bytes())
    }

    /// Seals a payload for the record of this name.
    pub(crate) fn seal(&self, name: &[u8], payload: &[u8]) -> Result<Vec<u8>, SledError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce)
            .map_err(|error| SledError::Other(format!("the system gives no random bytes: {error}")))?;
        let sealed = XChaCha20Poly1305::new(&self.sealing.into())
            .encrypt(&XNonce::from(nonce), Payload { msg: payload, aad: name })
            .map_err(|_| SledError::Other("a payload cannot be sealed".into()))?;
        Ok([&nonce[..], &sealed].concat())
    }

    /// Unseals the payload of the record of this name. Returns `None` where it was sealed with another key or for
    /// another record.
    pub(crate) fn unseal(&self, name: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        XChaCha20Poly1305::new(&self.sealing.into())
            .decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: name })
            .ok()
    }
}
