//! Tests that need records of other schemas, which only this module can create.

#![allow(clippy::unwrap_used)]

use super::envelope::tests::of_schema;
use super::envelope::{EnvelopeKind, SCHEMA};
use super::folder::StoreFiles;
use super::{Options, SledStore, envelope, keys, survey};
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

/// Writes the newest root of a store again, as a version with another schema would.
fn rewritten(folder: &std::path::Path, schema: u16, content: Option<&[u8]>) {
    let files = StoreFiles::open(folder).unwrap();
    let get = |name: &[u8]| Ok(files.tree().get(name).unwrap());
    let (root, _) = envelope::read(&keys::root(1), EnvelopeKind::Root, &get).unwrap();
    let root = of_schema(schema, &keys::root(1), EnvelopeKind::Root, content.unwrap_or(&root));
    files.commit(vec![(keys::root(1), root)], Vec::new(), 1).unwrap();
    files.close();
}

fn generations(store: &SledStore) -> Vec<i64> {
    let scope = Scope { gateway: "g/g".into(), build: "1".into() };
    let key = holdfast_graph::ObjectKey::new("group", "Kind", "namespace", "name");
    store.versions(&scope, &key).unwrap().iter().map(|object| object.generation).collect()
}

#[test]
fn an_upgrade_keeps_a_copy_and_a_rollback_uses_it() {
    let base = tempfile::tempdir().unwrap();
    let (folder, other) = (base.path().join("store"), base.path().join("store.schema-0"));
    let mut store = SledStore::open(&folder, &options()).unwrap().store;
    store.commit(batch(1)).unwrap();
    drop(store);
    // The upgrade: the store is in an earlier schema.
    rewritten(&folder, SCHEMA - 1, None);
    let opened = SledStore::open(&folder, &options()).unwrap();
    assert!(opened.notices[0].contains("a copy for a rollback to that version is"), "{:?}", opened.notices);
    let mut store = opened.store;
    assert_eq!(generations(&store), [1]);
    store.commit(batch(2)).unwrap();
    drop(store);
    assert!(other.join("db").exists());

    // The rollback: the store is in a newer schema, and the upgrade has left a copy in the schema of this version.
    std::fs::rename(&other, base.path().join("store.schema-1")).unwrap();
    rewritten(&base.path().join("store.schema-1"), SCHEMA, None);
    rewritten(&folder, SCHEMA + 1, Some(b"of a form that nobody knows yet"));
    let opened = SledStore::open(&folder, &options()).unwrap();
    assert!(opened.notices[0].contains("newer version of Holdfast (schema 2)"), "{:?}", opened.notices);
    assert!(
        opened.notices[1].contains("the upgrade to a newer version has left is used again"),
        "{:?}",
        opened.notices
    );
    assert_eq!(generations(&opened.store), [1]);
    drop(opened);
    let opened = SledStore::open(&folder, &options()).unwrap();
    assert_eq!((generations(&opened.store), opened.notices.len()), (vec![1], 0));
    assert!(base.path().join("store.newer-1").exists() && !base.path().join("store.schema-1").exists());
}

/// A rollback that ended between its steps is finished by the next start, wherever it ended.
#[test]
fn an_interrupted_rollback_is_finished() {
    let base = tempfile::tempdir().unwrap();
    let at = |name: &str| base.path().join(name);
    for interrupted_after_setting_aside in [false, true] {
        let folder = at(&format!("store-{interrupted_after_setting_aside}"));
        let beside = |end: &str| folder.with_extension(end);
        if !interrupted_after_setting_aside {
            let mut store = SledStore::open(&folder, &options()).unwrap().store;
            store.commit(batch(2)).unwrap();
            drop(store);
            rewritten(&folder, SCHEMA + 1, Some(b"of a form that nobody knows yet"));
        }
        let mut store = SledStore::open(&beside("next"), &options()).unwrap().store;
        store.commit(batch(1)).unwrap();
        drop(store);
        let opened = SledStore::open(&folder, &options()).unwrap();
        assert_eq!(generations(&opened.store), [1], "{:?}", opened.notices);
        assert!(opened.notices.last().unwrap().contains("is used again"), "{:?}", opened.notices);
        assert_eq!(beside("newer-1").exists(), !interrupted_after_setting_aside);
        assert!(!beside("next").exists());
    }
}

#[test]
fn an_upgrade_replaces_an_earlier_copy_and_what_was_left_of_one() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("store");
    let mut store = SledStore::open(&folder, &options()).unwrap().store;
    store.commit(batch(1)).unwrap();
    drop(store);
    rewritten(&folder, SCHEMA - 1, None);
    for left in ["store.schema-0", "store.schema-0.part"] {
        std::fs::create_dir(base.path().join(left)).unwrap();
        std::fs::write(base.path().join(left).join("left"), "").unwrap();
    }
    assert_eq!(generations(&SledStore::open(&folder, &options()).unwrap().store), [1]);
    let copy = base.path().join("store.schema-0");
    assert!(copy.join("db").exists() && !copy.join("left").exists());
    assert!(!base.path().join("store.schema-0.part").exists());
}
