//! Tests of foreign stores: of another product or another installation. They are set aside, reported, and left
//! unchanged. Stores of a newer version are tested beside the envelope, which is the only code that can create them.

use std::fs;

use holdfast_store::{LastValidStore, Options, SledStore, StoreError};

use crate::common::{Contents, object, options, promote, reopen, scope, set_aside, sled, small};

#[test]
fn a_folder_of_something_else_is_set_aside() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    fs::create_dir(&store).unwrap();
    fs::write(store.join("thesis.tex"), "years of work").unwrap();
    let opened = SledStore::open(&store, &options(None)).unwrap();
    assert!(opened.notices[0].contains("not a store of Holdfast"), "{:?}", opened.notices);
    assert_eq!(set_aside(&store), [".other-1"]);
    assert_eq!(fs::read_to_string(base.path().join("store.other-1/thesis.tex")).unwrap(), "years of work");
}

#[test]
fn a_database_of_another_product_is_set_aside() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    sled(&store).insert("their key", "their value").unwrap();
    drop(sled(&store));
    let opened = SledStore::open(&store, &options(None)).unwrap();
    assert!(opened.notices[0].contains("not a store of Holdfast"), "{:?}", opened.notices);
    assert_eq!(Contents::of(&opened.store), Contents::default());
    assert_eq!(sled(&base.path().join("store.other-1")).get("their key").unwrap().unwrap(), "their value");
}

#[test]
fn a_database_with_a_root_that_is_not_ours_is_set_aside() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    sled(&store).insert(b"r\0", "their value").unwrap();
    let opened = SledStore::open(&store, &options(None)).unwrap();
    assert!(opened.notices[0].contains("not a store of Holdfast"), "{:?}", opened.notices);
    assert_eq!(set_aside(&store), [".other-1"]);
}

#[test]
fn a_store_of_another_installation_is_set_aside_and_comes_back_whole() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    let (_, newest) = small(&store);
    let other = Options { identity: "cluster 2".into(), key: None };
    let mut opened = SledStore::open(&store, &other).unwrap();
    assert!(opened.notices[0].contains("another installation"), "{:?}", opened.notices);
    assert!(opened.store.scopes().unwrap().is_empty());
    opened.store.commit(promote(&scope("infra/one"), object("a", 9, "theirs"))).unwrap();
    drop(opened);
    assert_eq!(Contents::of(&reopen(&base.path().join("store.other-1"))), newest);
}

#[test]
fn stores_of_others_are_never_deleted() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    for number in 0..3 {
        let identity = format!("cluster {number}");
        let opened = SledStore::open(&store, &Options { identity: identity.into(), key: None });
        opened.unwrap().store.commit(promote(&scope("infra/one"), object("a", 1, "x"))).unwrap();
    }
    let fourth = Options { identity: "cluster 4".into(), key: None };
    SledStore::open(&store, &fourth).unwrap().store.commit(promote(&scope("g/g"), object("a", 1, "x"))).unwrap();
    assert_eq!(set_aside(&store), [".other-1", ".other-2", ".other-3"]);
    let error = SledStore::open(&store, &options(None)).err().unwrap();
    assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("remove")), "{error}");
    assert_eq!(SledStore::open(&store, &fourth).unwrap().store.scopes().unwrap().len(), 1);
}

#[test]
fn a_file_in_the_place_of_the_folder_is_set_aside() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    fs::write(&store, "a file").unwrap();
    let opened = SledStore::open(&store, &options(None)).unwrap();
    assert!(!opened.notices.is_empty());
    assert_eq!(fs::read_to_string(base.path().join("store.other-1")).unwrap(), "a file");
}
