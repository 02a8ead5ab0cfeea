//! What is stored.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_graph::ObjectKey;

/// Versions of one object that are kept in a scope.
pub const VERSIONS_KEPT: usize = 2;
/// Bytes of one payload.
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// For whom something is known to be good: the Envoys of one Gateway, of one build.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// `namespace/name` of the Gateway.
    pub gateway: Arc<str>,
    /// Envoy's version, with the flags that change its verdicts.
    pub build: Arc<str>,
}

/// BLAKE3 of a payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

/// 64 lower-case hexadecimal digits.
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A version of an object.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// Identity.
    pub key: ObjectKey,
    /// UID: a version is used only for the same UID.
    pub uid: Arc<str>,
    /// `metadata.generation` of this version.
    pub generation: i64,
    /// The object, as its owner of the format wrote it.
    pub payload: Bytes,
}

/// Never shows the payload: it may be a Secret.
impl fmt::Debug for StoredObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredObject")
            .field("key", &self.key)
            .field("uid", &self.uid)
            .field("generation", &self.generation)
            .field("digest", &Digest::of(&self.payload))
            .finish_non_exhaustive()
    }
}

/// An xDS resource that was acknowledged.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredResource {
    /// URL of its type.
    pub type_url: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its version, served again as it is.
    pub version: [u8; 16],
    /// The encoded message.
    pub body: Bytes,
}

/// Never shows the body: it may hold a private key.
impl fmt::Debug for StoredResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredResource")
            .field("type_url", &self.type_url)
            .field("name", &self.name)
            .field("digest", &Digest::of(&self.body))
            .finish_non_exhaustive()
    }
}
