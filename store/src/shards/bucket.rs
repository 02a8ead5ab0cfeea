//! Where the shards are put: blobs under names, each with a revision, so that two writers do not overwrite each other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::error::StoreError;

/// What a blob is at: another one after each write.
pub type Revision = Arc<str>;

/// What must be so for a blob to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing.
    Anything,
    /// There is none.
    Absent,
    /// It is as it was read.
    At(Revision),
}

/// What came of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is written, and is at this revision now.
    Written(Revision),
    /// It is not as it was expected to be: another has written.
    Conflict,
}

/// A place for blobs that several processes share.
///
/// Names are lower-case letters, digits and `-`, at most [`NAME_BYTES_MAX`](super::NAME_BYTES_MAX) bytes; blobs have at
/// most [`BLOB_BYTES_MAX`](super::BLOB_BYTES_MAX) bytes. A write is there as a whole or not at all.
pub trait Bucket: Send {
    /// The names of all blobs, in any order.
    ///
    /// # Errors
    /// Where the place cannot be reached.
    fn list(&self) -> Result<Vec<String>, StoreError>;

    /// A blob with its revision; none where there is none.
    ///
    /// # Errors
    /// Where the place cannot be reached.
    fn get(&self, name: &str) -> Result<Option<(Bytes, Revision)>, StoreError>;

    /// Writes a blob, where it is as it is expected to be.
    ///
    /// # Errors
    /// Where the place cannot be reached: then it may be written or not.
    fn put(&self, name: &str, bytes: Bytes, expected: &Expected) -> Result<Put, StoreError>;

    /// Removes a blob; one that is not there is gone already.
    ///
    /// # Errors
    /// Where the place cannot be reached: then it may be removed or not.
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

/// A bucket in memory, shared by its clones: for tests, and the model of others.
#[derive(Clone, Debug, Default)]
pub struct MemoryBucket {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    blobs: BTreeMap<String, (Bytes, u64)>,
    writes: u64,
    /// After so many writes more it cannot be reached.
    left: Option<u64>,
}

impl MemoryBucket {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Each write is one step: there is no half of it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes so many writes more, and then cannot be reached; none: as many as come.
    pub fn fail_after(&self, writes: Option<u64>) {
        self.inner().left = writes;
    }

    /// How often was written or removed.
    pub fn writes(&self) -> u64 {
        self.inner().writes
    }
}

impl Inner {
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
