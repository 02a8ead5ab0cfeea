//! Observations: reports of each process that serves Envoys to the process that writes, about acknowledged and refused
//! contents.
//!
//! Each process writes a blob of its own, beside the generations and never part of one. The blob has a counter that
//! increases with each write: a process that has stopped counting is gone, and its observation with it.

use std::sync::Arc;

use bincode::{Decode, Encode};

use super::bucket::{Bucket, Expected};
use super::{BLOB_BYTES_MAX, ShardStore, form, frame};
use crate::error::StoreError;
use crate::record::Digest;

/// Maximum number of processes with observations that are read; of more, the first in the order of the names of their
/// blobs are read.
pub const OBSERVERS_MAX: usize = 64;

/// The observation of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Observation {
    /// Name of the process.
    pub observer: Arc<str>,
    /// Counter that increases with each write.
    pub beat: u64,
    /// Observations by Gateway and build.
    pub scopes: Vec<ObservedScope>,
}

/// Answers of the Envoys of one Gateway and one build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct ObservedScope {
    /// `namespace/name` of the Gateway.
    pub gateway: Arc<str>,
    /// The build.
    pub build: Arc<str>,
    /// Connected Envoys.
    pub nodes: Vec<Arc<str>>,
    /// Resources that one of these Envoys has acknowledged and that are not known as acknowledged.
    pub acknowledged: Vec<Answered>,
    /// Resources that one of these Envoys refuses.
    pub refused: Vec<Refused>,
}

/// A version of a resource that was acknowledged or refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Answered {
    /// Number of its type.
    pub kind: u8,
    /// Name.
    pub name: Arc<str>,
    /// Version.
    pub version: [u8; 16],
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Refused {
    /// The resource.
    pub resource: Answered,
    /// The Envoy.
    pub node: Arc<str>,
    /// The message of the Envoy, scrubbed.
    pub message: Arc<str>,
}

impl<B: Bucket> ShardStore<B> {
    /// Writes the observation of this process.
    ///
    /// # Errors
    /// Fails where the bucket cannot be reached, or the observation is too large for a blob.
    pub fn observe(&self, observation: &Observation) -> Result<(), StoreError> {
        let name = blob(&observation.observer);
        let unencoded = || StoreError::Unavailable("what was seen cannot be encoded".into());
        let bytes = form::encode(observation).ok_or_else(unencoded)?;
        let bytes = frame::wrap(self.sealer.as_ref(), &self.bound_to(&name), &bytes)?;
        if bytes.len() > BLOB_BYTES_MAX {
            return Err(StoreError::TooLarge { name, bytes: bytes.len(), max: BLOB_BYTES_MAX });
        }
        self.bucket.put(&name, bytes.into(), &Expected::Anything).map(|_| ())
    }

    /// Returns the observations of all processes, in the order of their blobs. Unreadable ones are left out: their
    /// process writes them again. This function also detects removed blobs of this generation.
    ///
    /// # Errors
    /// Fails where the bucket cannot be reached.
    pub fn observations(&mut self) -> Result<Vec<Observation>, StoreError> {
        let mut names = self.bucket.list()?;
        self.miss(&names);
        names.retain(|name| name.starts_with("seen-"));
        names.sort_unstable();
        let mut seen = Vec::new();
        for name in names.into_iter().take(OBSERVERS_MAX) {
            let Some((bytes, _)) = self.bucket.get(&name)? else { continue };
            let bytes = frame::unwrap(self.sealer.as_ref(), &self.bound_to(&name), &bytes);
            let read: Option<Observation> = bytes.ok().and_then(|bytes| form::decode(&bytes));
            seen.extend(read.filter(|read| blob(&read.observer) == name));
        }
        Ok(seen)
    }

    /// Removes the observation of a process that is gone.
    ///
    /// # Errors
    /// Fails where the bucket cannot be reached.
    pub fn forget_observer(&self, observer: &str) -> Result<(), StoreError> {
        self.bucket.delete(&blob(observer))
    }

    fn bound_to(&self, name: &str) -> Vec<u8> {
        [self.identity.as_bytes(), b"\0", name.as_bytes()].concat()
    }
}

fn blob(observer: &str) -> String {
    let digest = Digest::of(observer.as_bytes());
    let digits: String = digest.bytes().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("seen-{digits}")
}
