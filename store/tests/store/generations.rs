//! Tests of the two generations: where the newest cannot be read, the previous one is used as a whole.

use std::path::Path;

use holdfast_store::{LastValidStore, SledStore};

use crate::common::{Contents, copy, object, open, options, promote, reopen, scope, set_aside, sled, small};

fn spoil(folder: &Path, name: &[u8]) {
    let db = sled(folder);
    let mut bytes = db.get(name).unwrap().unwrap().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    db.insert(name, bytes).unwrap();
}

#[test]
fn the_generation_before_is_used_as_a_whole() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    let (older, newest) = small(&store);
    assert_ne!(older, newest);
    // The second generation uses the first of the two names.
    spoil(&store, b"r\0");
    let opened = open(&store);
    assert_eq!(Contents::of(&opened.store), older);
    assert!(opened.notices.iter().any(|notice| notice.contains("generation")), "{:?}", opened.notices);
    drop(opened);
    spoil(&store, b"r\x01");
    let opened = open(&store);
    assert_eq!(Contents::of(&opened.store), Contents::default());
    assert_eq!(set_aside(&store), [".damaged-1"]);
}

#[test]
fn damage_of_what_only_the_newest_has_costs_only_that() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    let (older, _) = small(&store);
    let before: Vec<_> = sled(&store).iter().keys().map(Result::unwrap).collect();
    let mut seen = 0;
    for name in before.iter().filter(|name| name[0] == b'c' || name[0] == b'n') {
        let folder = tempfile::tempdir().unwrap();
        let copied = folder.path().join("store");
        copy(&store, &copied);
        spoil(&copied, name);
        seen += usize::from(Contents::of(&open(&copied).store) == older);
    }
    assert!(seen > 0, "what the newest generation wrote is damaged: the one before has nothing of it");
}

#[test]
fn generations_go_on_after_one_was_lost() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    let (older, _) = small(&store);
    spoil(&store, b"r\0");
    let mut opened = open(&store).store;
    let at = scope("infra/three");
    for generation in 1..4 {
        opened.commit(promote(&at, object("c", generation, generation.to_string()))).unwrap();
        drop(opened);
        opened = reopen(&store);
        assert_eq!(opened.versions(&at, &crate::common::key("c")).unwrap()[0].generation, generation);
        assert!(older.is_within(&Contents::of(&opened)));
    }
}

#[test]
fn of_damaged_stores_three_are_kept() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    for _ in 0..5 {
        small(&store);
        spoil(&store, b"r\0");
        spoil(&store, b"r\x01");
        let opened = SledStore::open(&store, &options(None)).unwrap();
        assert!(opened.notices.iter().any(|notice| notice.contains("set aside")), "{:?}", opened.notices);
        drop(opened);
        std::fs::remove_dir_all(&store).unwrap();
    }
    assert_eq!(set_aside(&store), [".damaged-1", ".damaged-2", ".damaged-3"]);
}
