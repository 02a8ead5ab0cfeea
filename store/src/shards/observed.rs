//! What each process that serves Envoys tells the one that writes: what its Envoys took and refused.
//!
//! A blob for each of them, which it alone writes, beside the generations and never part of one. It counts up with each
//! write: who has stopped counting is gone, and so is what it told.

use std::sync::Arc;

use bincode::{Decode, Encode};

use super::bucket::{Bucket, Expected};
use super::{BLOB_BYTES_MAX, ShardStore, form, frame};
use crate::error::StoreError;
use crate::record::Digest;

/// Processes of which it is read; of more the first in the order of their blobs' names.
pub const OBSERVERS_MAX: usize = 64;

/// What one process has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Observation {
    /// Whose it is.
    pub observer: Arc<str>,
    /// Counts up with each write.
    pub beat: u64,
    /// What it saw, by Gateway and build.
    pub scopes: Vec<ObservedScope>,
}

/// What Envoys of one Gateway and build said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct ObservedScope {
    /// `namespace/name` of the Gateway.
    pub gateway: Arc<str>,
    /// The build.
    pub build: Arc<str>,
    /// Its Envoys that are connected.
    pub nodes: Vec<Arc<str>>,
    /// What one of them has taken and is not known to have been acknowledged.
    pub acknowledged: Vec<Answered>,
    /// What one of them refuses.
    pub refused: Vec<Refused>,
}

/// A version of a resource that was answered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Answered {
    /// A number for its type.
    pub kind: u8,
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: [u8; 16],
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Refused {
    /// What.
    pub resource: Answered,
    /// Which Envoy.
    pub node: Arc<str>,
    /// Its words, scrubbed.
    pub message: Arc<str>,
}

impl<B: Bucket> ShardStore<B> {
    /// Tells what this process has seen.
    ///
    /// # Errors
    /// Where the bucket cannot be reached, or it is more than a blob takes.
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

    /// What all processes have seen, in the order of their blobs. What cannot be read is left out: who wrote it writes it
    /// again. On the way it is noticed where blobs of this generation were removed.
    ///
    /// # Errors
    /// Where the bucket cannot be reached.
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

    /// Forgets what a process told that is gone.
    ///
    /// # Errors
    /// Where the bucket cannot be reached.
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
