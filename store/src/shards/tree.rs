//! Grouping of records into leaves: by the hash of their names, up to a size. Equal records in any order give equal
//! leaves, and a commit changes only the leaves of its records.

use super::SHARD_BYTES;
use super::form::{self, RecordForm};
use crate::error::StoreError;
use crate::record::{PAYLOAD_BYTES_MAX, Scope};
use crate::sled::seal::Sealer;
use crate::{LastValidStore, MemoryStore};

/// Number of bits of a position.
const DEPTH: u32 = 128;

/// A record with its position and bytes.
pub(super) struct PlacedRecord {
    place: u128,
    bytes: Vec<u8>,
}

fn place(segments: &[&[u8]]) -> u128 {
    let mut hasher = blake3::Hasher::new();
    for segment in segments {
        hasher.update(&(segment.len() as u64).to_le_bytes());
        hasher.update(segment);
    }
    let hash = hasher.finalize();
    let first: [u8; 16] = std::array::from_fn(|n| hash.as_bytes().get(n).copied().unwrap_or_default());
    u128::from_be_bytes(first)
}

/// Returns all records of a scope, without records that must be sealed and cannot be.
pub(super) fn records(
    store: &MemoryStore,
    scope: &Scope,
    sealer: Option<&Sealer>,
) -> Result<Vec<PlacedRecord>, StoreError> {
    let mut records = Vec::new();
    let mut add = |segments: &[&[u8]], form: &RecordForm| {
        let bytes = form::encode(form).ok_or_else(|| StoreError::Unavailable("a record cannot be encoded".into()))?;
        records.push(PlacedRecord { place: place(segments), bytes });
        Ok::<_, StoreError>(())
    };
    let shared = |sensitive: bool| !sensitive || sealer.is_some();
    for key in store.objects(scope)? {
        let mut versions = store.versions(scope, &key)?;
        versions.retain(|version| shared(version.sensitive));
        if !versions.is_empty() {
            let segments = [&key.group, &key.kind, &key.namespace, &key.name].map(|segment| segment.as_bytes());
            let [group, kind, namespace, name] = segments;
            add(&[b"object", group, kind, namespace, name], &form::object(&key, versions))?;
        }
    }
    for resource in store.configuration(scope)?.into_iter().filter(|resource| shared(resource.sensitive)) {
        let (kind, name) = (resource.type_url.clone(), resource.name.clone());
        add(&[b"resource", kind.as_bytes(), name.as_bytes()], &form::resource(resource))?;
    }
    for verdict in store.verdicts(scope)? {
        let content = verdict.content;
        add(&[b"verdict", &content], &form::verdict(verdict))?;
    }
    records.sort_by(|a, b| (a.place, &a.bytes).cmp(&(b.place, &b.bytes)));
    Ok(records)
}

/// Returns the records by leaf, each leaf as its bytes.
pub(super) fn leaves(records: &[PlacedRecord]) -> Vec<Vec<u8>> {
    let mut leaves = Vec::new();
    split(records, 0, &mut leaves);
    leaves
}

fn split(records: &[PlacedRecord], depth: u32, leaves: &mut Vec<Vec<u8>>) {
    if records.is_empty() {
        return;
    }
    let bytes: usize = records.iter().map(|record| record.bytes.len()).sum();
    if bytes <= SHARD_BYTES || records.len() == 1 || depth >= DEPTH {
        leaves.push(records.iter().flat_map(|record| record.bytes.iter().copied()).collect());
        return;
    }
    let bit = 1_u128 << (DEPTH - 1 - depth);
    let middle = records.partition_point(|record| record.place & bit == 0);
    let (low, high) = records.split_at(middle);
    split(low, depth + 1, leaves);
    split(high, depth + 1, leaves);
}

/// Returns the records of a leaf, or `None` where they differ from what was written.
pub(super) fn read(mut bytes: &[u8]) -> Option<Vec<RecordForm>> {
    let config = bincode::config::standard().with_limit::<{ 4 * PAYLOAD_BYTES_MAX }>();
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let (record, consumed) = bincode::decode_from_slice(bytes, config).ok()?;
        records.push(record);
        bytes = bytes.get(consumed..)?;
    }
    Some(records)
}
