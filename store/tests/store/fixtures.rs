//! Tests that this version reads the stores of every past version.
//!
//! `HOLDFAST_FIXTURES=write cargo test -p holdfast-store fixtures` writes the fixture of the current schema, where
//! there is none yet. An existing fixture is never written again.

use std::fs;
use std::path::{Path, PathBuf};

use holdfast_store::{Batch, Change, LastValidStore, SledStore, StoredObject, StoredResource};

use crate::common::{Contents, copy, object, options, promote, resource, scope, verdict};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn batches() -> Vec<Batch> {
    let (one, two) = (scope("infra/one"), scope("infra/two"));
    let secret = StoredObject { sensitive: true, ..object("secret", 3, "a sealed payload of a fixture") };
    let resource = |name: &str, body: &'static str| StoredResource { version: [3; 16], ..resource(name, body) };
    let body = StoredResource { sensitive: true, ..resource("sealed", "a sealed body of a fixture") };
    let first = promote(&one, object("a", 1, "the first of a"))
        .with(Change::Promote(two.clone(), object("a", 1, "of the other")))
        .with(Change::Promote(one.clone(), secret));
    let second = promote(&one, object("a", 2, "the second of a"))
        .with(Change::Promote(one.clone(), object("large", 1, vec![5; 150_000])))
        .with(Change::Acknowledge(one, vec![resource("r", "r"), resource("empty", ""), body]))
        .with(Change::Convict(two, verdict(4, 1_700_000_000)));
    vec![first, second]
}

fn expected() -> Contents {
    let mut store = holdfast_store::MemoryStore::default();
    batches().into_iter().for_each(|batch| store.commit(batch).unwrap());
    Contents::of(&store)
}

#[test]
fn every_past_format_is_read() {
    let current = fixtures().join("schema-1");
    if std::env::var("HOLDFAST_FIXTURES").is_ok_and(|it| it == "write") && !current.exists() {
        let mut store = SledStore::open(&current, &options(Some(42))).unwrap().store;
        batches().into_iter().for_each(|batch| store.commit(batch).unwrap());
    }
    let mut read = Vec::new();
    for entry in fs::read_dir(fixtures()).unwrap() {
        let fixture = entry.unwrap().path();
        let folder = tempfile::tempdir().unwrap();
        let copied = folder.path().join("store");
        copy(&fixture, &copied);
        let opened = SledStore::open(&copied, &options(Some(42))).unwrap();
        assert!(opened.notices.is_empty(), "{}: {:?}", fixture.display(), opened.notices);
        assert_eq!(Contents::of(&opened.store), expected(), "{}", fixture.display());
        read.push(fixture.file_name().unwrap().to_str().unwrap().to_owned());
    }
    assert_eq!(read, ["schema-1"]);
}
