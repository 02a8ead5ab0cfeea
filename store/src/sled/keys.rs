//! Names of records in the tree.
//!
//! Everything but the two roots is named by its content: a record is never changed, only written and removed.

use holdfast_graph::ObjectKey;

use crate::record::{Digest, Scope};

/// The name of a record in the tree.
pub(super) type Name = Vec<u8>;

/// The root of a generation. There are two places, so that the generation before is still there.
pub(super) fn root(generation: u64) -> Name {
    vec![b'r', u8::from(generation % 2 == 1)]
}

/// The places of roots.
pub(super) fn roots() -> [Name; 2] {
    [root(0), root(1)]
}

/// A page, or a table of pages.
pub(super) fn node(digest: &Digest) -> Name {
    [b"n", &digest.bytes()[..]].concat()
}

/// A payload, at its place and of its content.
pub(super) fn content(place: &[u8; 16], digest: &Digest) -> Name {
    [b"c", &place[..], &digest.bytes()[..16]].concat()
}

/// A part of a record that is too large for one.
pub(super) fn chunk(name: &[u8], number: u32) -> Name {
    [name, &number.to_be_bytes()].concat()
}

/// What a thing's place is called: the same words give the same place, others another one.
pub(super) fn place(kind: u8, scope: &Scope, words: &[&str]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[kind]);
    for word in [&*scope.gateway, &*scope.build].iter().chain(words) {
        hasher.update(&(word.len() as u64).to_le_bytes());
        hasher.update(word.as_bytes());
    }
    first(hasher.finalize().as_bytes())
}

/// On which page something stands.
pub(super) fn page(words: &[&[u8]]) -> u8 {
    let mut hasher = blake3::Hasher::new();
    for word in words {
        hasher.update(&(word.len() as u64).to_le_bytes());
        hasher.update(word);
    }
    hasher.finalize().as_bytes()[0]
}

/// The words of an object's identity.
pub(super) fn words(key: &ObjectKey) -> [&str; 4] {
    [&key.group, &key.kind, &key.namespace, &key.name]
}

fn first(bytes: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|n| bytes.get(n).copied().unwrap_or_default())
}
