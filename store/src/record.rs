//! Records of the store.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_graph::ObjectKey;

/// Number of versions of one object that are kept in a scope.
pub const VERSIONS_KEPT: usize = 2;
/// Maximum size of one payload, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum size of one name, field or message, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of witnesses of one verdict, and of origins of one resource.
pub const LIST_MAX: usize = 10_000;
/// Maximum number of scopes: Gateways times builds.
pub const SCOPES_MAX: usize = 10_000;
/// Maximum number of objects in one scope.
pub const OBJECTS_MAX: usize = 200_000;
/// Maximum number of resources in one scope.
pub const RESOURCES_MAX: usize = 400_000;
/// Maximum number of verdicts in one scope; beyond it, the oldest is removed.
pub const VERDICTS_MAX: usize = 1000;

/// A scope: the Envoys of one Gateway and one build, for which something is known to be good or refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// `namespace/name` of the Gateway.
    pub gateway: Arc<str>,
    /// Version of Envoy, with the flags that change its verdicts.
    pub build: Arc<str>,
}

/// BLAKE3 digest of a payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Returns a digest of known value.
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the digest.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Writes 64 lower-case hexadecimal digits.
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
    /// UID: a version is used only for an object with this UID.
    pub uid: Arc<str>,
    /// `metadata.generation` of this version.
    pub generation: i64,
    /// Time when the version was proven good (seconds since 1970).
    pub since: i64,
    /// Whether the payload must never be written to a disk in plain text. Then it is sealed, or kept in memory only.
    pub sensitive: bool,
    /// The object, in the format of the caller.
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
    /// Type URL.
    pub type_url: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Version, which is served again unchanged. Resources of one name and version have the same body.
    pub version: [u8; 16],
    /// Whether the body must never be written to a disk in plain text. Then it is sealed, or kept in memory only.
    pub sensitive: bool,
    /// The objects from which the resource was made.
    pub origins: Vec<ObjectKey>,
    /// The encoded message.
    pub body: Bytes,
}

/// Never shows the body: it may contain a private key.
impl fmt::Debug for StoredResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredResource")
            .field("type_url", &self.type_url)
            .field("name", &self.name)
            .field("digest", &Digest::of(&self.body))
            .finish_non_exhaustive()
    }
}

/// A verdict: content of an object that is at fault and is not tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredVerdict {
    /// Digest of the translated content: the subject of the verdict, whatever the UID of the object is.
    pub content: [u8; 16],
    /// The object.
    pub key: ObjectKey,
    /// The section of the object.
    pub section: Arc<str>,
    /// `metadata.generation` when the fault was found.
    pub generation: i64,
    /// Method of detection.
    pub detected_by: Arc<str>,
    /// The field at fault.
    pub field: Arc<str>,
    /// The message.
    pub message: Arc<str>,
    /// Time when the fault was found (seconds since 1970).
    pub since: i64,
    /// Contents together with which the content was refused.
    pub witnesses: Vec<[u8; 16]>,
}

/// Statistics of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of the last commit.
    pub generation: u64,
    /// Number of scopes.
    pub scopes: usize,
    /// Number of objects in all scopes.
    pub objects: usize,
    /// Number of versions of these objects.
    pub versions: usize,
    /// Number of acknowledged resources in all scopes.
    pub resources: usize,
    /// Number of verdicts in all scopes.
    pub verdicts: usize,
    /// Number of versions and resources that end with the process: sensitive ones without a key to seal them.
    pub memory_only: usize,
    /// Number of versions and resources on the disk that cannot be unsealed with the available key.
    pub unreadable: usize,
    /// Size of the files of the store, in bytes.
    pub bytes_on_disk: u64,
    /// Whether there is a key for sealing.
    pub sealed: bool,
}
