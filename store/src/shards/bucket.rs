//! Bucket for shards: blobs by name, each with a revision, so that two writers do not overwrite each other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::error::StoreError;

/// The revision of a blob; a different one after each write.
pub type Revision = Arc<str>;

/// The condition for a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// No condition.
    Anything,
    /// There is no blob with this name.
    Absent,
    /// The blob still has the revision that was read.
    At(Revision),
}

/// Result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// The blob is written, and has this revision now.
    Written(Revision),
    /// The blob did not meet the condition: another process has written it.
    Conflict,
}

/// A place for blobs that several processes share.
///
/// Names consist of lower-case letters, digits and `-`, at most [`NAME_BYTES_MAX`](super::NAME_BYTES_MAX) bytes; blobs
/// have at most [`BLOB_BYTES_MAX`](super::BLOB_BYTES_MAX) bytes. A blob is written as a whole or not at all.
pub trait Bucket: Send {
    /// Returns the names of all blobs, in any order.
    ///
    /// # Errors
    /// Fails where the bucket cannot be reached.
    fn list(&self) -> Result<Vec<String>, StoreError>;

    /// Returns a blob with its revision, or `None` where there is no blob.
    ///
    /// # Errors
    /// Fails where the bucket cannot be reached.
    fn get(&self, name: &str) -> Result<Option<(Bytes, Revision)>, StoreError>;

    /// Writes a blob if it meets the condition.
    ///
    /// # Errors
    /// Fails where the bucket cannot be reached: then the blob may be written or not.
    fn put(&self, name: &str, bytes: Bytes, expected: &Expected) -> Result<Put, StoreError>;

    /// Removes a blob; a missing blob is no error.
    ///
    /// # Errors
    /// Fails where the bucket cannot be reached: then the blob may be removed or not.
    fn delete(&self, name: &str) -> Result<(), StoreError>;
}

impl<B: Bucket + ?Sized> Bucket for Box<B> {
    fn list(&self) -> Result<Vec<String>, StoreError> {
        (**self).list()
    }

    fn get(&self, name: &str) -> Result<Option<(Bytes, Revision)>, StoreError> {
        (**self).get(name)
    }

    fn put(&self, name: &str, bytes: Bytes, expected: &Expected) -> Result<Put, StoreError> {
        (**self).put(name, bytes, expected)
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        (**self).delete(name)
    }
}

/// A bucket in memory, shared by its clones: for tests, and the model of other buckets.
#[derive(Clone, Debug, Default)]
pub struct MemoryBucket {
    inner: Arc<Mutex<MemoryBlobs>>,
}

#[derive(Debug, Default)]
struct MemoryBlobs {
    blobs: BTreeMap<String, (Bytes, u64)>,
    writes: u64,
    /// Number of further writes before the bucket becomes unreachable.
    left: Option<u64>,
}

impl MemoryBucket {
    fn inner(&self) -> MutexGuard<'_, MemoryBlobs> {
        // Each write is one step and cannot be partial.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the bucket unreachable after this number of further writes; never for `None`.
    pub fn fail_after(&self, writes: Option<u64>) {
        self.inner().left = writes;
    }

    /// Returns the number of writes and removals.
    pub fn writes(&self) -> u64 {
        self.inner().writes
    }
}

impl MemoryBlobs {
    fn step(&mut self) -> Result<u64, StoreError> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1).ok_or_else(|| StoreError::Unavailable("the bucket is away".into()))?;
        }
        self.writes += 1;
        Ok(self.writes)
    }
}

impl Bucket for MemoryBucket {
    fn list(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.inner().blobs.keys().cloned().collect())
    }

    fn get(&self, name: &str) -> Result<Option<(Bytes, Revision)>, StoreError> {
        let inner = self.inner();
        Ok(inner.blobs.get(name).map(|(bytes, revision)| (bytes.clone(), revision.to_string().into())))
    }

    fn put(&self, name: &str, bytes: Bytes, expected: &Expected) -> Result<Put, StoreError> {
        let mut inner = self.inner();
        let revision = inner.step()?;
        let known = inner.blobs.get(name).map(|(_, revision)| revision.to_string());
        let fits = match expected {
            Expected::Anything => true,
            Expected::Absent => known.is_none(),
            Expected::At(wanted) => known.as_deref() == Some(&**wanted),
        };
        if !fits {
            return Ok(Put::Conflict);
        }
        inner.blobs.insert(name.to_owned(), (bytes, revision));
        Ok(Put::Written(revision.to_string().into()))
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        let mut inner = self.inner();
        inner.step()?;
        inner.blobs.remove(name);
        Ok(())
    }
}
