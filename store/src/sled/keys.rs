//! Names of records in the tree.
//!
//! Every record except the two roots is named by its content: a record is never changed, only written and removed.

use holdfast_graph::ObjectKey;

use crate::record::{Digest, Scope};

/// The name of a record in the tree.
pub(super) type Name = Vec<u8>;

/// Returns the name of the root of a generation. There are two names, so that the root of the previous generation is
/// kept.
pub(super) fn root(generation: u64) -> Name {
    vec![b'r', u8::from(generation % 2 == 1)]
}

/// Returns the names of both roots.
pub(super) fn roots() -> [Name; 2] {
    [root(0), root(1)]
}

/// Returns the name of a page or of a table of pages.
pub(super) fn node(digest: &Digest) -> Name {
    [b"n", &digest.bytes()[..]].concat()
}

/// Returns the name of a payload, from its place and its content.
pub(super) fn content(place: &[u8; 16], digest: &Digest) -> Name {
    [b"c", &place[..], &digest.bytes()[..16]].concat()
}

/// Returns the name of a chunk of a large record.
pub(super) fn chunk(name: &[u8], number: u32) -> Name {
    [name, &number.to_be_bytes()].concat()
}

/// Returns the place of an entry: equal segments give equal places, different segments different ones.
pub(super) fn place(kind: u8, scope: &Scope, segments: &[&str]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[kind]);
    for segment in [&*scope.gateway, &*scope.build].iter().chain(segments) {
        hasher.update(&(segment.len() as u64).to_le_bytes());
        hasher.update(segment.as_bytes());
    }
    first(hasher.finalize().as_bytes())
}

/// Returns the number of the page of an entry.
pub(super) fn page(segments: &[&[u8]]) -> u8 {
    let mut hasher = blake3::Hasher::new();
    for segment in segments {
        hasher.update(&(segment.len() as u64).to_le_bytes());
        hasher.update(segment);
    }
    hasher.finalize().as_bytes()[0]
}

/// Returns the segments of the identity of an object.
pub(super) fn segments(key: &ObjectKey) -> [&str; 4] {
    [&key.group, &key.kind, &key.namespace, &key.name]
}

fn first(bytes: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|n| bytes.get(n).copied().unwrap_or_default())
}
