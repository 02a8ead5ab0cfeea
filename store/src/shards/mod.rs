//! The store that several processes share: shards in a [`Bucket`], written by one of them, read by all.
//!
//! Records stand on leaves ([`tree`]), leaves in blobs of a size that the bucket takes, named by the generation that wrote
//! them and by their content. A commit writes the leaves that changed, and at last the manifest, which names all leaves
//! of its generation; it is written only where it is as it was read, so that of two writers one wins and the other is
//! told. What neither the manifest nor the one before it names goes afterwards. So a reader sees whole generations only,
//! whenever a writer is killed.
//!
//! With a key everything is sealed with it. Without one, what is sensitive is not shared: it stays in the memory of who
//! knows it. What is damaged, missing, or sealed with another key is not known, is told, and is written anew by the next
//! commit. Nothing here decides who writes.

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
pub use self::observed::{Answered, OBSERVERS_MAX, Observation, ObservedScope, Refused};

use self::form::{Leaf, RecordForm};
use crate::batch::{Batch, Change};
use crate::error::StoreError;
use crate::record::{Scope, Statistics, StoredObject, StoredResource, StoredVerdict};
use crate::sled::Options;
use crate::sled::seal::Sealer;
use crate::{LastValidStore, MemoryStore};

/// Bytes of one blob.
pub const BLOB_BYTES_MAX: usize = 512 * 1024;
/// Bytes of a blob's name.
pub const NAME_BYTES_MAX: usize = 64;
/// Leaves of one generation.
pub const LEAVES_MAX: usize = 4_096;
/// Bytes of one leaf: as many as the largest record needs.
pub const LEAF_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of one generation.
pub const SHARED_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Things on offer that are told for one scope; of more the first.
pub const OFFERS_MAX: usize = 20_000;
/// Bytes of records that stand together, unless one alone has more.
pub(crate) const SHARD_BYTES: usize = 256 * 1024;

const MANIFEST: &str = "manifest";

/// Something that all are offered, and nobody is known to have acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offer {
    /// A number for its type.
    pub kind: u8,
    /// Its content.
    pub content: [u8; 16],
}

/// What one process is asked to offer to one of its Envoys alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnTrial {
    /// Which process and which of its Envoys.
    pub node: Arc<str>,
    /// The contents that are tried.
    pub contents: Vec<[u8; 16]>,
    /// Objects of which these are tried apart from the rest.
    pub apart: Vec<ObjectKey>,
}

/// What is offered in one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeOffers {
    /// To all.
    pub all: Vec<Offer>,
    /// To one, where anything is tried.
    pub trial: Option<OnTrial>,
}

/// What is offered, by scope.
pub type Offers = BTreeMap<Scope, ScopeOffers>;

/// What was found when it was looked whether another has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refreshed {
    /// Nobody has.
    Same,
    /// Somebody has; it is known now what.
    Newer,
    /// What was there cannot be read any more, or is gone: what is known stays.
    Lost,
}

/// What was read of a generation.
#[derive(Clone, Default)]
struct Known {
    generation: u64,
    leaves: BTreeMap<Scope, Vec<Leaf>>,
}

/// See the module.
pub struct ShardStore<B> {
    bucket: B,
    identity: Arc<str>,
    sealer: Option<Sealer>,
    memory: MemoryStore,
    offers: Offers,
    known: Known,
    /// At which the manifest was read or written last.
    revision: Option<Revision>,
    /// Leaves as they were read, so that only others are read again.
    read: HashMap<Leaf, Arc<Vec<RecordForm>>>,
    /// Blobs that the generation before names and this one does not: they go with the next commit.
    expiring: BTreeSet<String>,
    /// Is it known that there are no blobs that nobody names?
    swept: bool,
    /// Is a part of what was read or written not there, or not readable? Then the next commit writes everything.
    incomplete: bool,
    notices: Vec<String>,
}

impl<B: Bucket> ShardStore<B> {
    /// Reads what is shared; nothing where nothing was shared yet.
    ///
    /// # Errors
    /// Where the bucket cannot be reached, or what is there belongs to another installation or a newer version.
    pub fn open(bucket: B, options: &Options) -> Result<Self, StoreError> {
        let mut store = Self::unread(bucket, options);
        store.refresh()?;
        Ok(store)
    }

    /// A store of which nothing was read yet.
    pub fn unread(bucket: B, options: &Options) -> Self {
        Self {
            bucket,
            identity: options.identity.clone(),
            sealer: options.key.as_ref().map(Sealer::new),
            memory: MemoryStore::default(),
            offers: Offers::default(),
            known: Known::default(),
            revision: None,
            read: HashMap::new(),
            expiring: BTreeSet::new(),
            swept: false,
            incomplete: false,
            notices: Vec::new(),
        }
    }

    /// Reads what another has written since.
    ///
    /// # Errors
    /// Where the bucket cannot be reached, or what is there belongs to another installation or a newer version.
    pub fn refresh(&mut self) -> Result<Refreshed, StoreError> {
        load::refresh(self)
    }

    /// The generation that was read or written last; 0 where there is none.
    pub fn generation(&self) -> u64 {
        self.known.generation
    }

    /// What is offered.
    pub fn offers(&self) -> &Offers {
        &self.offers
    }

    /// Commits a batch, and what is offered from now on.
    ///
    /// # Errors
    /// As for a commit; [`StoreError::Conflict`] where another has written: then it is to be read first.
    pub fn share(&mut self, batch: Batch, offers: Offers) -> Result<(), StoreError> {
        if batch.is_empty() && offers == self.offers && self.revision.is_some() && !self.incomplete {
            return Ok(());
        }
        batch.check()?;
        let touched = self.touched(&batch, &offers);
        let mut memory = self.memory.clone();
        memory.commit(batch)?;
        write::write(self, memory, offers, Some(&touched))
    }

    /// The scopes that a batch and other offers concern.
    fn touched(&self, batch: &Batch, offers: &Offers) -> BTreeSet<Scope> {
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

    /// Writes what this store is to hold instead of all that it held.
    ///
    /// # Errors
    /// As [`share`](Self::share).
    pub fn replace(&mut self, everything: Batch, offers: Offers) -> Result<(), StoreError> {
        everything.check()?;
        let mut memory = MemoryStore::default();
        memory.commit(everything)?;
        write::write(self, memory, offers, None)
    }

    /// Looks whether all blobs of this generation are among those that there are.
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
        self.notices.push("somebody removed a part of what is shared: all of it is written anew".into());
    }

    /// What it holds, in memory.
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

/// The name of a leaf's blob.
fn blob(leaf: &Leaf, part: u32) -> String {
    let digest: String = leaf.digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("s-{:x}-{digest}-{part:x}", leaf.generation)
}

/// The generation that wrote a blob, by its name; none where it is no blob of a leaf.
fn written_by(name: &str) -> Option<u64> {
    let (generation, _) = name.strip_prefix("s-")?.split_once('-')?;
    u64::from_str_radix(generation, 16).ok()
}

/// The names of a leaf's blobs.
fn blobs(leaf: &Leaf) -> impl Iterator<Item = String> {
    (0..leaf.parts).map(|part| blob(leaf, part))
}

/// What a leaf is bound to.
fn bound(identity: &str, scope: &Scope) -> Vec<u8> {
    let words = [identity, &scope.gateway, &scope.build];
    words.iter().flat_map(|word| [&(word.len() as u64).to_le_bytes()[..], word.as_bytes()].concat()).collect()
}
