//! Tests of sensitive payloads: sealed on the disk with a key, never on the disk without one.

use std::fs;
use std::path::{Path, PathBuf};

use holdfast_store::{Batch, Change, LastValidStore, SledStore, StoredObject, StoredResource};

use crate::common::{Contents, key, object, options, promote, resource, scope, set_aside, sled};

const SECRET: &str =
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n-----END PRIVATE KEY-----\n";

fn sensitive() -> Batch {
    let at = scope("infra/public");
    let secret = StoredObject { sensitive: true, ..object("secret", 1, SECRET) };
    let body = StoredResource { sensitive: true, ..resource("secret", SECRET.repeat(900)) };
    promote(&at, secret)
        .with(Change::Promote(at.clone(), object("plain", 1, "in plain sight")))
        .with(Change::Acknowledge(at, vec![body, resource("plain", "in plain sight too")]))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn is_on_disk(folder: &Path, bytes: &[u8]) -> bool {
    files(folder).iter().any(|file| fs::read(file).unwrap().windows(bytes.len()).any(|window| window == bytes))
}

#[test]
fn no_byte_of_a_secret_is_on_the_disk() {
    for sealed in [None, Some(7)] {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("store");
        let mut store = SledStore::open(&folder, &options(sealed)).unwrap().store;
        store.commit(sensitive()).unwrap();
        let kept = store.versions(&scope("infra/public"), &key("secret")).unwrap();
        assert_eq!(kept[0].payload, SECRET, "this run has it, with a key and without");
        assert_eq!(store.statistics().memory_only, if sealed.is_some() { 0 } else { 2 });
        drop(store);
        assert!(is_on_disk(&folder, b"in plain sight"), "the search finds what is there");
        for part in SECRET.as_bytes().chunks(8) {
            assert!(!is_on_disk(&folder, part), "{sealed:?}: {part:?}");
        }
        let digest = blake3::hash(SECRET.as_bytes());
        assert!(!is_on_disk(&folder, &digest.as_bytes()[..16]), "a plain digest would let guesses be tried");
    }
}

#[test]
fn what_was_sealed_is_there_with_its_key_only() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("store");
    let at = scope("infra/public");
    let mut store = SledStore::open(&folder, &options(Some(7))).unwrap().store;
    store.commit(sensitive()).unwrap();
    let whole = Contents::of(&store);
    drop(store);
    for other in [None, Some(8)] {
        let opened = SledStore::open(&folder, &options(other)).unwrap();
        let mut store = opened.store;
        assert!(opened.notices.iter().any(|notice| notice.contains("2 records are sealed")), "{:?}", opened.notices);
        assert!(!store.objects(&at).unwrap().contains(&key("secret")));
        assert!(store.versions(&at, &key("secret")).unwrap().is_empty());
        assert_eq!(store.configuration(&at).unwrap(), [resource("plain", "in plain sight too")]);
        assert_eq!(store.statistics().unreadable, 2);
        // Commits continue, and do not remove unreadable data.
        for generation in 2..5 {
            store.commit(promote(&at, object("other", generation, "x"))).unwrap();
        }
    }
    let opened = SledStore::open(&folder, &options(Some(7))).unwrap();
    assert!(opened.notices.is_empty(), "{:?}", opened.notices);
    assert!(whole.is_within(&Contents::of(&opened.store)), "the right key brings all of it back");
}

#[test]
fn without_a_key_sensitive_payloads_end_with_the_run() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("store");
    let at = scope("infra/public");
    let mut store = SledStore::open(&folder, &options(None)).unwrap().store;
    store.commit(sensitive()).unwrap();
    store.commit(promote(&at, object("plain", 2, "newer"))).unwrap();
    assert_eq!(store.configuration(&at).unwrap().len(), 2);
    drop(store);
    let opened = SledStore::open(&folder, &options(None)).unwrap();
    assert!(opened.notices.is_empty(), "{:?}", opened.notices);
    assert_eq!(opened.store.objects(&at).unwrap(), [key("plain")]);
    assert_eq!(opened.store.configuration(&at).unwrap().len(), 1);
}

#[test]
fn a_sealed_record_is_good_in_its_own_place_only() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("store");
    let at = scope("infra/public");
    let mut store = SledStore::open(&folder, &options(Some(7))).unwrap().store;
    store.commit(sensitive()).unwrap();
    let two = StoredObject { sensitive: true, ..object("two", 1, "another secret, of another object") };
    store.commit(promote(&at, two)).unwrap();
    drop(store);
    let db = sled(&folder);
    let names: Vec<_> = db.scan_prefix(b"c").keys().map(Result::unwrap).filter(|name| name.len() == 33).collect();
    let first = db.get(&names[0]).unwrap().unwrap();
    names.iter().skip(1).for_each(|name| drop(db.insert(name, &first).unwrap()));
    drop(db);
    let opened = SledStore::open(&folder, &options(Some(7))).unwrap();
    assert!(!opened.notices.is_empty() && set_aside(&folder).is_empty(), "{:?}", opened.notices);
    let seen = Contents::of(&opened.store);
    assert!(seen.objects.len() + seen.resources.len() <= 1, "{seen:?}");
}
