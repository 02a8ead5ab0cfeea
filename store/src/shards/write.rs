//! Writing to the bucket: new leaves, then the manifest, then the removal of orphaned blobs.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::bucket::{Bucket, Expected, Put};
use super::form::{self, LeafForm, ManifestForm, PRODUCT, RecordForm, SharedScopeForm};
use super::{
    BLOB_BYTES_MAX, KnownManifest, LEAVES_MAX, MANIFEST, OFFERS_MAX, OffersByScope, SHARED_BYTES_MAX, ScopeOffers,
    ShardStore, blobs, bound, frame, tree, written_by,
};
use crate::batch::count;
use crate::error::StoreError;
use crate::record::Scope;
use crate::{LastValidStore, MemoryStore};

/// Writes the new state. Where `touched` is set, all other scopes are known to be unchanged.
pub(super) fn write<B: Bucket>(
    store: &mut ShardStore<B>,
    memory: MemoryStore,
    mut offers: OffersByScope,
    touched: Option<&BTreeSet<Scope>>,
) -> Result<(), StoreError> {
    offers.values_mut().for_each(|offers| offers.all.truncate(OFFERS_MAX));
    offers.retain(|_, offers| *offers != ScopeOffers::default());
    let (next, fresh) = next(store, &memory, &offers, touched)?;
    check_limits(&next)?;
    if next.leaves == store.known.leaves && store.revision.is_some() && !store.incomplete {
        // The change, if there is one, is not shared.
        (store.memory, store.offers) = (memory, offers);
        return Ok(());
    }
    for (leaf, bytes) in fresh {
        for (name, part) in blobs(&leaf).zip(bytes.chunks(BLOB_BYTES_MAX)) {
            store.bucket.put(&name, bytes.slice_ref(part), &Expected::Anything)?;
        }
    }
    let manifest = manifest(store, &next)?;
    let expected = store.revision.clone().map_or(Expected::Absent, Expected::At);
    let Put::Written(revision) = store.bucket.put(MANIFEST, manifest, &expected)? else {
        return Err(StoreError::Conflict);
    };
    let names = |known: &KnownManifest| known.leaves.values().flatten().flat_map(blobs).collect::<BTreeSet<String>>();
    let named = names(&next);
    let gone: BTreeSet<String> = names(&store.known).difference(&named).cloned().collect();
    (store.memory, store.offers, store.known, store.revision) = (memory, offers, next, Some(revision));
    store.read.clear();
    store.incomplete = false;
    let expired = std::mem::replace(&mut store.expiring, gone);
    sweep(store, expired, &named);
    Ok(())
}

/// Returns the next generation, and the content of its new leaves.
fn next<B: Bucket>(
    store: &ShardStore<B>,
    memory: &MemoryStore,
    offers: &OffersByScope,
    touched: Option<&BTreeSet<Scope>>,
) -> Result<(KnownManifest, Vec<(LeafForm, Bytes)>), StoreError> {
    let generation = store.known.generation + 1;
    let mut next = KnownManifest { generation, leaves: BTreeMap::new() };
    let mut fresh = Vec::new();
    let mut scopes: BTreeSet<Scope> = memory.scopes()?.into_iter().collect();
    scopes.extend(offers.keys().cloned());
    for scope in scopes {
        let known = store.known.leaves.get(&scope);
        if let Some(known) = known.filter(|_| touched.is_some_and(|touched| !touched.contains(&scope))) {
            next.leaves.insert(scope, known.clone());
            continue;
        }
        let known = known.map(Vec::as_slice).unwrap_or_default();
        let mut leaves = Vec::new();
        let records = tree::records(memory, &scope, store.sealer.as_ref())?;
        let mut pages = tree::leaves(&records);
        if let Some(offers) = offers.get(&scope) {
            pages.extend(form::encode(&RecordForm::Offers(offers.into())));
        }
        for page in pages {
            let name = bound(&store.identity, &scope);
            let digest = *frame::digest(store.sealer.as_ref(), &name, &page).bytes();
            if let Some(same) = known.iter().find(|leaf| leaf.digest == digest) {
                leaves.push(same.clone());
                continue;
            }
            let bytes = frame::wrap(store.sealer.as_ref(), &[&name[..], &digest].concat(), &page)?;
            let parts = u32::try_from(bytes.len().div_ceil(BLOB_BYTES_MAX)).unwrap_or(u32::MAX);
            let leaf = LeafForm { generation, digest, parts, bytes: bytes.len() as u64 };
            leaves.push(leaf.clone());
            fresh.push((leaf, Bytes::from(bytes)));
        }
        if !leaves.is_empty() {
            next.leaves.insert(scope, leaves);
        }
    }
    Ok((next, fresh))
}

fn check_limits(next: &KnownManifest) -> Result<(), StoreError> {
    let all = || next.leaves.values().flatten();
    count("shards", all().count(), LEAVES_MAX)?;
    let bytes: u64 = all().map(|leaf| leaf.bytes).sum();
    if bytes > SHARED_BYTES_MAX {
        let (bytes, max) = [bytes, SHARED_BYTES_MAX].map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)).into();
        return Err(StoreError::TooLarge { name: "the shared store".into(), bytes, max });
    }
    Ok(())
}

fn manifest<B: Bucket>(store: &ShardStore<B>, known: &KnownManifest) -> Result<Bytes, StoreError> {
    let scopes = known.leaves.iter().map(|(scope, leaves)| SharedScopeForm {
        gateway: scope.gateway.clone(),
        build: scope.build.clone(),
        leaves: leaves.clone(),
    });
    let form = ManifestForm {
        product: PRODUCT.into(),
        identity: store.identity.to_string(),
        generation: known.generation,
        scopes: scopes.collect(),
    };
    let bytes = form::encode(&form).ok_or_else(|| StoreError::Unavailable("the manifest cannot be encoded".into()))?;
    let bytes = frame::wrap(store.sealer.as_ref(), MANIFEST.as_bytes(), &bytes)?;
    if bytes.len() > BLOB_BYTES_MAX {
        return Err(StoreError::TooLarge { name: MANIFEST.into(), bytes: bytes.len(), max: BLOB_BYTES_MAX });
    }
    Ok(bytes.into())
}

/// Removes orphaned blobs. Blobs that remain after an error only cost space, and are searched for again.
///
/// Blobs of later generations may belong to another process that is about to write the manifest: they are kept.
fn sweep<B: Bucket>(store: &mut ShardStore<B>, expired: BTreeSet<String>, named: &BTreeSet<String>) {
    let mut gone = expired;
    if !store.swept {
        let Ok(all) = store.bucket.list() else { return };
        let generation = store.known.generation;
        let orphaned = |name: &String| written_by(name).is_some_and(|by| by <= generation);
        gone.extend(all.into_iter().filter(orphaned));
    }
    gone.retain(|name| !named.contains(name) && !store.expiring.contains(name));
    store.swept = gone.into_iter().all(|name| store.bucket.delete(&name).is_ok());
}
