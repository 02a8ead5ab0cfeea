//! Loading: the manifest, then the leaves that it names. Unreadable data is treated as unknown; data of two generations
//! is never mixed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::bucket::{Bucket, Revision};
use super::form::{self, LeafForm, ManifestForm, PRODUCT, RecordForm};
use super::frame::FrameFlaw;
use super::{
    BLOB_BYTES_MAX, KnownManifest, LEAF_BYTES_MAX, LEAVES_MAX, MANIFEST, OffersByScope, Refreshed, ShardStore, blobs,
    bound, frame, tree, written_by,
};
use crate::batch::{Batch, Change};
use crate::error::StoreError;
use crate::record::Scope;
use crate::{LastValidStore, MemoryStore};

/// Number of times that loading is repeated where a writer is faster than the reader.
const TRIES_MAX: usize = 5;

type ReadLeaves = HashMap<LeafForm, Arc<Vec<RecordForm>>>;

/// Reads the data that another process has written since the last read.
pub(super) fn refresh<B: Bucket>(store: &mut ShardStore<B>) -> Result<Refreshed, StoreError> {
    for attempt in 1.. {
        let Some((bytes, revision)) = store.bucket.get(MANIFEST)? else { return lost(store, None, FrameFlaw::Absent) };
        if store.revision.as_ref() == Some(&revision) {
            return Ok(Refreshed::Same);
        }
        let manifest = match manifest(store, &bytes) {
            Ok(manifest) => manifest,
            Err(flaw) => return lost(store, Some(revision), flaw),
        };
        if *manifest.identity != *store.identity {
            return Err(StoreError::Unavailable(format!("it belongs to another installation ({})", manifest.identity)));
        }
        let (read, missing) = leaves(store, &manifest)?;
        // A faster writer removes the leaves of the manifest that was read.
        let is_newest = || Ok(store.bucket.get(MANIFEST)?.is_some_and(|(_, newest)| newest == revision));
        if missing > 0 && attempt < TRIES_MAX && !is_newest()? {
            continue;
        }
        take(store, manifest, revision, read);
        return Ok(Refreshed::Newer);
    }
    Ok(Refreshed::Same)
}

fn manifest<B>(store: &ShardStore<B>, bytes: &[u8]) -> Result<ManifestForm, FrameFlaw> {
    let bytes = frame::unwrap(store.sealer.as_ref(), MANIFEST.as_bytes(), bytes)?;
    let manifest: ManifestForm = form::decode(&bytes).ok_or(FrameFlaw::Damaged)?;
    let leaves: usize = manifest.scopes.iter().map(|scope| scope.leaves.len()).sum();
    if manifest.product == PRODUCT && leaves <= LEAVES_MAX { Ok(manifest) } else { Err(FrameFlaw::Damaged) }
}

/// Returns the leaves of a generation, and the number of missing leaves.
fn leaves<B: Bucket>(store: &ShardStore<B>, manifest: &ManifestForm) -> Result<(ReadLeaves, usize), StoreError> {
    let (mut read, mut missing) = (ReadLeaves::new(), 0);
    for form in &manifest.scopes {
        let scope = Scope { gateway: form.gateway.clone(), build: form.build.clone() };
        for leaf in &form.leaves {
            if let Some(known) = store.read.get(leaf) {
                read.insert(leaf.clone(), known.clone());
                continue;
            }
            match self::leaf(store, &scope, leaf)? {
                Ok(records) => {
                    read.insert(leaf.clone(), Arc::new(records));
                }
                Err(FrameFlaw::Absent) => missing += 1,
                Err(_) => {}
            }
        }
    }
    Ok((read, missing))
}

fn leaf<B: Bucket>(
    store: &ShardStore<B>,
    scope: &Scope,
    leaf: &LeafForm,
) -> Result<Result<Vec<RecordForm>, FrameFlaw>, StoreError> {
    if leaf.parts as usize > LEAF_BYTES_MAX / BLOB_BYTES_MAX + 1 {
        return Ok(Err(FrameFlaw::Damaged));
    }
    let mut bytes = Vec::new();
    for name in blobs(leaf) {
        let Some((part, _)) = store.bucket.get(&name)? else { return Ok(Err(FrameFlaw::Absent)) };
        bytes.extend_from_slice(&part);
    }
    let (sealer, name) = (store.sealer.as_ref(), bound(&store.identity, scope));
    let page = match frame::unwrap(sealer, &[&name[..], &leaf.digest].concat(), &bytes) {
        Ok(page) if *frame::digest(sealer, &name, &page).bytes() == leaf.digest => page,
        Ok(_) => return Ok(Err(FrameFlaw::Damaged)),
        Err(flaw) => return Ok(Err(flaw)),
    };
    Ok(tree::read(&page).ok_or(FrameFlaw::Damaged))
}

/// Replaces the state of the store with a generation, without its unreadable parts.
fn take<B: Bucket>(store: &mut ShardStore<B>, manifest: ManifestForm, revision: Revision, read: ReadLeaves) {
    let mut known = KnownManifest { generation: manifest.generation, leaves: BTreeMap::new() };
    let (mut memory, mut offers) = (MemoryStore::default(), OffersByScope::default());
    let mut complete = true;
    for form in manifest.scopes {
        let scope = Scope { gateway: form.gateway, build: form.build };
        let count = form.leaves.len();
        let leaves: Vec<LeafForm> = form.leaves.into_iter().filter(|leaf| read.contains_key(leaf)).collect();
        let whole = leaves.len() == count;
        complete &= whole;
        if !whole {
            store.notices.push(format!(
                "the shared records of {} and Envoy {} cannot be read completely: the unreadable ones are ignored",
                scope.gateway, scope.build
            ));
        }
        let records = leaves.iter().filter_map(|leaf| read.get(leaf)).flat_map(|records| records.iter());
        let batch = changes(&scope, records, whole, &mut offers);
        if let Err(error) = memory.commit(batch) {
            store.notices.push(format!("the shared records of {} are ignored: {error}", scope.gateway));
        }
        // A scope with damage is written again completely.
        known.leaves.extend(whole.then_some((scope, leaves)));
    }
    (store.memory, store.offers, store.known, store.revision) = (memory, offers, known, Some(revision));
    store.read = read;
    store.expiring.clear();
    store.swept = false;
    store.incomplete = !complete;
}

/// Returns the records of leaves as changes. A configuration with a missing part is left out.
fn changes<'a>(
    scope: &Scope,
    records: impl Iterator<Item = &'a RecordForm>,
    whole: bool,
    offers: &mut OffersByScope,
) -> Batch {
    let (mut batch, mut resources) = (Batch::default(), Vec::new());
    for record in records {
        match record {
            RecordForm::Object(key, versions) => {
                for version in form::objects(key, versions).into_iter().rev() {
                    batch.push(Change::Promote(scope.clone(), version));
                }
            }
            RecordForm::Resource(resource) => resources.push(resource.into()),
            RecordForm::Verdict(verdict) => batch.push(Change::Convict(scope.clone(), (&**verdict).into())),
            RecordForm::Offers(own) => {
                offers.insert(scope.clone(), own.into());
            }
        }
    }
    if whole && !resources.is_empty() {
        batch.push(Change::Acknowledge(scope.clone(), resources));
    }
    batch
}

/// Handles data that cannot be read any more: the known state is kept, and the next commit writes all of it.
fn lost<B: Bucket>(
    store: &mut ShardStore<B>,
    revision: Option<Revision>,
    flaw: FrameFlaw,
) -> Result<Refreshed, StoreError> {
    let why = match flaw {
        FrameFlaw::Newer => return Err(StoreError::Unavailable("it was written by a newer version".into())),
        FrameFlaw::Absent if store.revision.is_none() && store.known.generation == 0 => return Ok(Refreshed::Same),
        FrameFlaw::Absent => "is gone",
        FrameFlaw::Sealed => "is sealed with another key",
        FrameFlaw::Damaged => "is damaged",
    };
    if store.revision != revision {
        store.notices.push(format!("the manifest of the shared store {why}: this replica keeps the state that it has"));
    }
    let written = store.bucket.list()?.iter().filter_map(|name| written_by(name)).max();
    store.known.generation = store.known.generation.max(written.unwrap_or(0));
    store.known.leaves.clear();
    store.read.clear();
    store.revision = revision;
    store.swept = false;
    Ok(Refreshed::Lost)
}
