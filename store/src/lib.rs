//! Remembers what last worked: for each object the version that was proven good, for each Gateway the configuration
//! that its Envoys acknowledged, and what they refused.
//!
//! One trait, [`LastValidStore`], and a folder for each backend; every backend passes [`conformance`]. This crate decides
//! nothing about what is valid, names no Kubernetes kind, and never looks into a payload.
//!
//! [`SledStore`] keeps it on the disk; [`ShardStore`] in a [`Bucket`] that several processes share; [`MemoryStore`] is for runs without a data folder and the model that others are
//! compared with.

pub mod batch;
pub mod conformance;
pub mod error;
mod form;
pub mod memory;
pub mod record;
pub mod shards;
pub mod sled;

pub use batch::{Batch, Change};
pub use error::StoreError;
pub use memory::MemoryStore;
pub use record::{Digest, Scope, Statistics, StoredObject, StoredResource, StoredVerdict};
pub use shards::{Bucket, MemoryBucket, ShardStore};
pub use sled::{Key, Opened, Options, SledStore};

use holdfast_graph::ObjectKey;

/// A store of last valid versions.
///
/// A batch is committed as a whole or not at all. What was committed and read back has the digest it was committed with;
/// what has not is an error, never data. Committing a batch again, as a whole, changes nothing.
pub trait LastValidStore: Send {
    /// Commits a batch; returns when it is as durable as the backend makes it.
    ///
    /// # Errors
    /// Where a record is over a limit or the backend fails; then nothing of the batch is stored.
    fn commit(&mut self, batch: Batch) -> Result<(), StoreError>;

    /// Every scope of which something is stored, in order.
    ///
    /// # Errors
    /// Where the backend fails.
    fn scopes(&self) -> Result<Vec<Scope>, StoreError>;

    /// The versions of an object that were proven good in a scope, the newest first; at most
    /// [`VERSIONS_KEPT`](record::VERSIONS_KEPT).
    ///
    /// # Errors
    /// Where the backend fails or a record is damaged.
    fn versions(&self, scope: &Scope, key: &ObjectKey) -> Result<Vec<StoredObject>, StoreError>;

    /// Every object that has a version in a scope, in order.
    ///
    /// # Errors
    /// Where the backend fails.
    fn objects(&self, scope: &Scope) -> Result<Vec<ObjectKey>, StoreError>;

    /// The configuration that was acknowledged in a scope, by type and name in order; empty where none was.
    ///
    /// # Errors
    /// Where the backend fails or a record is damaged.
    fn configuration(&self, scope: &Scope) -> Result<Vec<StoredResource>, StoreError>;

    /// What was refused in a scope, the oldest first; at most [`VERDICTS_MAX`](record::VERDICTS_MAX).
    ///
    /// # Errors
    /// Where the backend fails.
    fn verdicts(&self, scope: &Scope) -> Result<Vec<StoredVerdict>, StoreError>;

    /// What it holds.
    fn statistics(&self) -> Statistics;

    /// What people should be told of: damage that was found, files that were set aside. Told once.
    fn notices(&mut self) -> Vec<String> {
        Vec::new()
    }
}

impl<S: LastValidStore + ?Sized> LastValidStore for Box<S> {
    fn commit(&mut self, batch: Batch) -> Result<(), StoreError> {
        (**self).commit(batch)
    }

    fn scopes(&self) -> Result<Vec<Scope>, StoreError> {
        (**self).scopes()
    }

    fn versions(&self, scope: &Scope, key: &ObjectKey) -> Result<Vec<StoredObject>, StoreError> {
        (**self).versions(scope, key)
    }

    fn objects(&self, scope: &Scope) -> Result<Vec<ObjectKey>, StoreError> {
        (**self).objects(scope)
    }

    fn configuration(&self, scope: &Scope) -> Result<Vec<StoredResource>, StoreError> {
        (**self).configuration(scope)
    }

    fn verdicts(&self, scope: &Scope) -> Result<Vec<StoredVerdict>, StoreError> {
        (**self).verdicts(scope)
    }

    fn statistics(&self) -> Statistics {
        (**self).statistics()
    }

    fn notices(&mut self) -> Vec<String> {
        (**self).notices()
    }
}
