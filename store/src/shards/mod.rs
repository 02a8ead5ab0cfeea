//! Store that several processes share: shards in a [`Bucket`], written by one process, read by all.
//!
//! Records are grouped in leaves ([`tree`]), and leaves are stored in blobs of a size that the bucket accepts, named by
//! the generation that wrote them and by their content. A commit writes the changed leaves, and at last the manifest,
//! which names all leaves of its generation. The manifest is written only where it is unchanged since it was read, so
//! that of two writers one succeeds and the other gets an error. Blobs that neither the manifest nor the previous one
//! names are removed afterwards. So a reader sees whole generations only, whenever a writer is killed.
//!
//! With a key, all data is sealed with it. Without a key, sensitive data is not shared: it stays in the memory of the
//! process that has it. Data that is damaged, missing, or sealed with another key is treated as unknown, is reported,
//! and is written again by the next commit. This module does not decide which process writes.

mod bucket;
mod form;
mod frame;
mod load;
mod observed;
mod tree;
mod write;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use holdfast_graph::ObjectKey;

pub use self::bucket::{Bucket, Expected, MemoryBucket, Put, Revision};
use self::form::{LeafForm, RecordForm};
pub use self::observed::{Answered, OBSERVERS_MAX, Observation, ObservedScope, Refused};
use crate::batch::{Batch, Change};
use crate::error::StoreError;
use crate::record::{Scope, Statistics, StoredObject, StoredResource, StoredVerdict};
use crate::sled::Options;
use crate::sled::seal::Sealer;
use crate::{LastValidStore, MemoryStore};

/// Maximum size of one blob, in bytes.
pub const BLOB_BYTES_MAX: usize = 512 * 1024;
/// Maximum length of the name of a blob, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Maximum number of leaves of one generation.
pub const LEAVES_MAX: usize = 4_096;
/// Maximum size of one leaf, in bytes: the size of the largest record.
pub const LEAF_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum size of one generation, in bytes.
pub const SHARED_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Maximum number of contents on offer that are stored for one scope; of more, the first are stored.
pub const OFFERS_MAX: usize = 20_000;
/// Target size of records in one leaf, in bytes; a single larger record has a leaf of its own.
pub(crate) const SHARD_BYTES: usize = 256 * 1024;

const MANIFEST: &str = "manifest";

/// A content that is offered to all Envoys, and that no Envoy is known to have acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offer {
    /// Number of its type.
    pub kind: u8,
    /// The content.
    pub content: [u8; 16],
}

/// Contents that one process offers to a single one of its Envoys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnTrial {
    /// The process and the Envoy.
    pub node: Arc<str>,
    /// The contents that are tried.
    pub contents: Vec<[u8; 16]>,
    /// Objects with contents in this trial that are tried separately from the rest.
    pub apart: Vec<ObjectKey>,
}

/// The contents on offer in one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeOffers {
    /// Contents that are offered to all Envoys.
    pub all: Vec<Offer>,
    /// Contents that are offered to one Envoy, while there is a trial.
    pub trial: Option<OnTrial>,
}

/// The contents on offer, by scope.
pub type OffersByScope = BTreeMap<Scope, ScopeOffers>;

/// Result of a check for new data of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refreshed {
    /// There is no new data.
    Same,
    /// There is new data, which was read.
    Newer,
    /// The previous data cannot be read any more, or was removed: the known state is kept.
    Lost,
}

/// The generation that was read.
#[derive(Clone, Default)]
struct KnownManifest {
    generation: u64,
    leaves: BTreeMap<Scope, Vec<LeafForm>>,
}

/// A store that several processes share; see the module documentation.
pub struct ShardStore<B> {
    bucket: B,
    identity: Arc<str>,
    sealer: Option<Sealer>,
    memory: MemoryStore,
    offers: OffersByScope,
    known: KnownManifest,
    /// Revision of the manifest that was read or written last.
    revision: Option<Revision>,
    /// The leaves that were read, so that only new leaves are read.
    read: HashMap<LeafForm, Arc<Vec<RecordForm>>>,
    /// Blobs that the previous generation names and the current one does not: the next commit removes them.
    expiring: BTreeSet<String>,
    /// Whether there are known to be no orphaned blobs.
    swept: bool,
    /// Whether a part of the data is missing or unreadable. Then the next commit writes everything.
    incomplete: bool,
    notices: Vec<String>,
}

impl<B: Bucket> ShardStore<B> {
    /// Opens a store and reads the shared data; the store is empty where nothing was shared yet.
    ///
    /// # Errors
    /// Fails where the bucket cannot be reached, or its data belongs to another installation or a newer version.
    pub fn open(bucket: B, options: &Options) -> Result<Self, StoreError> {
        let mut store = Self::unread(bucket, options);
        store.refresh()?;
        Ok(store)
    }

    /// Returns a store that has not read anything yet.
    pub fn unread(bucket: B, options: &Options) -> Self {
        Self {
            bucket,
            identity: options.identity.clone(),
            sealer: options.key.as_ref().map(Sealer::new),
            memory: MemoryStore::default(),
            offers: OffersByScope::default(),
            known: KnownManifest::default(),
            revision: None,
            read: HashMap::new(),
            expiring: BTreeSet::new(),
            swept: false,
            incomplete: false,
            notices: Vec::new(),
        }
    }

    /// Reads the data that another process has written since the last read.
    ///
    /// # Errors
    /// Fails where the bucket cannot be reached, or its data belongs to another installation or a newer version.
    pub fn refresh(&mut self) -> Result<Refreshed, StoreError> {
        load::refresh(self)
    }

    /// Returns the generation that was read or written last; 0 where there is none.
    pub fn generation(&self) -> u64 {
        self.known.generation
    }

    /// Returns the contents on offer.
    pub fn offers(&self) -> &OffersByScope {
        &self.offers
    }

    /// Commits a batch, and the contents that are on offer from now on.
    ///
    /// # Errors
    /// Fails like a commit; fails with [`StoreError::Conflict`] where another process has written: then its data must
    /// be read first.
    pub fn share(&mut self, batch: Batch, offers: OffersByScope) -> Result<(), StoreError> {
        if batch.is_empty() && offers == self.offers && self.revision.is_some() && !self.incomplete {
            return Ok(());
        }
        batch.check()?;
        let touched = self.touched(&batch, &offers);
        let mut memory = self.memory.clone();
        memory.commit(batch)?;
        write::write(self, memory, offers, Some(&touched))
    }

    /// Returns the scopes that a batch and a change of offers affect.
    fn touched(&self, batch: &Batch, offers: &OffersByScope) -> BTreeSet<Scope> {
        let scopes = || self.known.leaves.keys();
        let mut touched = BTreeSet::new();
        for change in batch.changes() {
            match change {
                Change::Promote(scope, _)
                | Change::Acknowledge(scope, _)
                | Change::Convict(scope, _)
                | Change::Acquit(scope, _) => {
                    touched.insert(scope.clone());
                }
                Change::Forget(_) => touched.extend(scopes().cloned()),
                Change::ForgetGateway(gateway) => {
                    touched.extend(scopes().filter(|scope| scope.gateway == *gateway).cloned());
                }
            }
        }
        let differs = |scope: &&Scope| offers.get(*scope) != self.offers.get(*scope);
        touched.extend(offers.keys().chain(self.offers.keys()).filter(differs).cloned());
        touched
    }

    /// Replaces the whole content of the store.
    ///
    /// # Errors
    /// Fails like [`share`](Self::share).
    pub fn replace(&mut self, everything: Batch, offers: OffersByScope) -> Result<(), StoreError> {
        everything.check()?;
        let mut memory = MemoryStore::default();
        memory.commit(everything)?;
        write::write(self, memory, offers, None)
    }

    /// Checks whether all blobs of this generation are among the listed blobs.
    fn miss(&mut self, there: &[String]) {
        let there: BTreeSet<&str> = there.iter().map(String::as_str).collect();
        let list_is_gone = self.revision.is_some() && !there.contains(MANIFEST);
        let leaf_is_gone = || self.known.leaves.values().flatten().flat_map(blobs).any(|name| !there.contains(&*name));
        if !list_is_gone && !leaf_is_gone() {
            return;
        }
        if list_is_gone {
            self.revision = None;
        }
        self.known.leaves.clear();
        (self.incomplete, self.swept) = (true, false);
        self.notices.push("an object of the shared store was deleted: all of it is written again".into());
    }

    /// Returns the content of the store, in memory.
    pub fn contents(&self) -> &MemoryStore {
        &self.memory
    }
}

impl<B: Bucket> LastValidStore for ShardStore<B> {
    fn commit(&mut self, batch: Batch) -> Result<(), StoreError> {
        self.share(batch, self.offers.clone())
    }

    fn scopes(&self) -> Result<Vec<Scope>, StoreError> {
        self.memory.scopes()
    }

    fn versions(&self, scope: &Scope, key: &ObjectKey) -> Result<Vec<StoredObject>, StoreError> {
        self.memory.versions(scope, key)
    }

    fn objects(&self, scope: &Scope) -> Result<Vec<ObjectKey>, StoreError> {
        self.memory.objects(scope)
    }

    fn configuration(&self, scope: &Scope) -> Result<Vec<StoredResource>, StoreError> {
        self.memory.configuration(scope)
    }

    fn verdicts(&self, scope: &Scope) -> Result<Vec<StoredVerdict>, StoreError> {
        self.memory.verdicts(scope)
    }

    fn statistics(&self) -> Statistics {
        let bytes = self.known.leaves.values().flatten().map(|leaf| leaf.bytes).sum();
        Statistics {
            generation: self.known.generation,
            memory_only: 0,
            bytes_on_disk: bytes,
            sealed: self.sealer.is_some(),
            ..self.memory.statistics()
        }
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

/// Returns the name of a blob of a leaf.
fn blob(leaf: &LeafForm, part: u32) -> String {
    let digest: String = leaf.digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("s-{:x}-{digest}-{part:x}", leaf.generation)
}

/// Returns the generation that wrote a blob, from its name, or `None` where the blob does not belong to a leaf.
fn written_by(name: &str) -> Option<u64> {
    let (generation, _) = name.strip_prefix("s-")?.split_once('-')?;
    u64::from_str_radix(generation, 16).ok()
}

/// Returns the names of the blobs of a leaf.
fn blobs(leaf: &LeafForm) -> impl Iterator<Item = String> {
    (0..leaf.parts).map(|part| blob(leaf, part))
}

/// Returns the data to which a leaf is bound.
fn bound(identity: &str, scope: &Scope) -> Vec<u8> {
    let segments = [identity, &scope.gateway, &scope.build];
    segments
        .iter()
        .flat_map(|segment| [&(segment.len() as u64).to_le_bytes()[..], segment.as_bytes()].concat())
        .collect()
}
