//! Remembers what last worked: for each object the version that was proven good, for each Gateway the configuration
//! that its Envoys acknowledged.
//!
//! One trait, [`LastValidStore`], and a folder for each backend; every backend passes [`conformance`]. This crate decides
//! nothing about what is valid, names no Kubernetes kind, and never looks into a payload.

pub mod batch;
pub mod conformance;
pub mod error;
pub mod memory;
pub mod record;

pub use batch::{Batch, Change};
pub use error::StoreError;
pub use memory::MemoryStore;
pub use record::{Digest, Scope, StoredObject, StoredResource};

use holdfast_graph::ObjectKey;

/// A store of last valid versions.
///
/// A batch is committed as a whole or not at all. What was committed and read back has the digest it was committed with;
/// what has not is an error, never data.
pub trait LastValidStore: Send {
    /// Commits a batch; returns when it is as durable as the backend makes it.
    ///
    /// # Errors
    /// Where a record is over a limit or the backend fails; then nothing of the batch is stored.
    fn commit(&mut self, batch: Batch) -> Result<(), StoreError>;

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
}
