//! Store of the configuration that last worked: for each object the version that was proven good, for each Gateway the
//! configuration that its Envoys acknowledged, and the contents that they refused.
//!
//! There is one trait, [`LastValidStore`], and a folder for each backend; every backend passes [`conformance`]. This
//! crate does not decide what is valid, names no Kubernetes kind, and never reads a payload.
//!
//! [`SledStore`] keeps the data on the disk, [`ShardStore`] in a [`Bucket`] that several processes share.
//! [`MemoryStore`] is for runs without a data folder, and is the model with which other backends are compared.

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
use holdfast_graph::ObjectKey;
pub use memory::MemoryStore;
pub use record::{Digest, Scope, Statistics, StoredObject, StoredResource, StoredVerdict};
pub use shards::{Bucket, MemoryBucket, ShardStore};
pub use sled::{Key, Opened, Options, SledStore};

/// A store of last valid versions.
///
/// A batch is committed as a whole or not at all. Committed data that is read has the digest with which it was
/// committed; data with another digest is an error and is never returned. Committing a whole batch again changes
/// nothing.
pub trait LastValidStore: Send {
    /// Commits a batch; returns when the batch is as durable as the backend can make it.
    ///
    /// # Errors
    /// Fails where a record is over a limit or the backend fails; then nothing of the batch is stored.
    fn commit(&mut self, batch: Batch) -> Result<(), StoreError>;

    /// Returns every scope with stored data, in order.
    ///
    /// # Errors
    /// Fails where the backend fails.
    fn scopes(&self) -> Result<Vec<Scope>, StoreError>;

    /// Returns the versions of an object that were proven good in a scope, the newest first; at most
    /// [`VERSIONS_KEPT`](record::VERSIONS_KEPT).
    ///
    /// # Errors
    /// Fails where the backend fails or a record is damaged.
    fn versions(&self, scope: &Scope, key: &ObjectKey) -> Result<Vec<StoredObject>, StoreError>;

    /// Returns every object with a version in a scope, in order.
    ///
    /// # Errors
    /// Fails where the backend fails.
    fn objects(&self, scope: &Scope) -> Result<Vec<ObjectKey>, StoreError>;

    /// Returns the configuration that was acknowledged in a scope, ordered by type and name; empty where none was.
    ///
    /// # Errors
    /// Fails where the backend fails or a record is damaged.
    fn configuration(&self, scope: &Scope) -> Result<Vec<StoredResource>, StoreError>;

    /// Returns the contents that were refused in a scope, the oldest first; at most
    /// [`VERDICTS_MAX`](record::VERDICTS_MAX).
    ///
    /// # Errors
    /// Fails where the backend fails.
    fn verdicts(&self, scope: &Scope) -> Result<Vec<StoredVerdict>, StoreError>;

    /// Returns statistics of the store.
    fn statistics(&self) -> Statistics;

    /// Returns messages for operators: damage that was found, files that were set aside. Each message is returned once.
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
