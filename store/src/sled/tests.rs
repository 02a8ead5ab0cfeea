//! Tests that need records of a newer schema, which only this module can create.

#![allow(clippy::unwrap_used)]

use super::envelope::tests::of_schema;
use super::envelope::{EnvelopeKind, SCHEMA};
use super::folder::StoreFiles;
use super::{Options, SledStore, keys, survey};
use crate::{Batch, Change, LastValidStore, Scope, StoredObject};

fn options() -> Options {
    Options { identity: "cluster".into(), key: None }
}

fn batch(generation: i64) -> Batch {
    let key = holdfast_graph::ObjectKey::new("group", "Kind", "namespace", "name");
    let payload = bytes::Bytes::from_static(b"payload");
    let object = StoredObject { key, uid: "u".into(), generation, since: 0, sensitive: false, payload };
    Batch::default().with(Change::Promote(Scope { gateway: "g/g".into(), build: "1".into() }, object))
}

#[test]
fn a_store_of_a_newer_version_is_set_aside_as_it_is() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("store");
    let mut store = SledStore::open(&folder, &options()).unwrap().store;
    store.commit(batch(1)).unwrap();
    drop(store);
    let files = StoreFiles::open(&folder).unwrap();
    let root = of_schema(SCHEMA + 1, &keys::root(2), EnvelopeKind::Root, b"of a form that nobody knows yet");
    files.commit(vec![(keys::root(2), root)], Vec::new(), 2).unwrap();
    files.close();
    let looked = survey(&folder, None).unwrap();
    assert!(looked.damage[0].contains("newer version"), "{:?}", looked.damage);
    let opened = SledStore::open(&folder, &options()).unwrap();
    assert!(opened.notices[0].contains("newer version of Holdfast (schema 2)"), "{:?}", opened.notices);
    assert!(opened.store.scopes().unwrap().is_empty());
    let aside = base.path().join("store.newer-1");
    assert_eq!(StoreFiles::open(&aside).unwrap().tree().len(), 5, "one root of each, a table, a page and a payload");
}
