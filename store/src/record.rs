//! What is stored.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_graph::ObjectKey;

/// Versions of one object that are kept in a scope.
pub const VERSIONS_KEPT: usize = 2;
/// Bytes of one payload.
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of one name, field or message.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Witnesses of one verdict, and origins of one resource.
pub const LIST_MAX: usize = 10_000;
/// Scopes: Gateways times builds.
pub const SCOPES_MAX: usize = 10_000;
/// Objects of one scope.
pub const OBJECTS_MAX: usize = 200_000;
/// Resources of one scope.
pub const RESOURCES_MAX: usize = 400_000;
/// Verdicts of one scope; beyond, the oldest goes.
pub const VERDICTS_MAX: usize = 1000;

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

    /// A digest that is known.
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
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
    /// When it was proven good (seconds since 1970).
    pub since: i64,
    /// Must the payload never stand on a disk as it is? Then it is sealed there, or kept in memory only.
    pub sensitive: bool,
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
            .field("since", &self.since)
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
    /// Must the body never stand on a disk as it is? Then it is sealed there, or kept in memory only.
    pub sensitive: bool,
    /// The objects it came from.
    pub origins: Vec<ObjectKey>,
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

/// What was found wrong with the content of an object, and is not tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredVerdict {
    /// Digest of the content as it was translated: what the verdict is about, whatever the object's UID.
    pub content: [u8; 16],
    /// The object.
    pub key: ObjectKey,
    /// The part of it.
    pub section: Arc<str>,
    /// `metadata.generation` when it was found.
    pub generation: i64,
    /// How it was found.
    pub detected_by: Arc<str>,
    /// The field at fault.
    pub field: Arc<str>,
    /// What is wrong with it.
    pub message: Arc<str>,
    /// When it was found (seconds since 1970).
    pub since: i64,
    /// Contents together with which it was refused.
    pub witnesses: Vec<[u8; 16]>,
}

/// What a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of the last commit.
    pub generation: u64,
    /// Scopes.
    pub scopes: usize,
    /// Objects, of all scopes.
    pub objects: usize,
    /// Versions of these.
    pub versions: usize,
    /// Acknowledged resources, of all scopes.
    pub resources: usize,
    /// Verdicts, of all scopes.
    pub verdicts: usize,
    /// Of versions and resources, those that end with the process: sensitive ones without a key to seal them.
    pub memory_only: usize,
    /// Of versions and resources, those on the disk that cannot be unsealed with the key at hand.
    pub unreadable: usize,
    /// Bytes that the store's files have.
    pub bytes_on_disk: u64,
    /// Is there a key to seal with?
    pub sealed: bool,
}
