//! Tests of the conformance suite with the store on the disk, and of its content after reopening.

use std::cell::RefCell;

use holdfast_store::{Batch, Change, LastValidStore, MemoryStore, SledStore};
use proptest::prelude::*;

use crate::common::{Contents, object, open, options, promote, reopen, resource, scope, verdict};

#[test]
fn the_sled_store_conforms() {
    for key in [None, Some(1)] {
        let folders = RefCell::new(Vec::new());
        holdfast_store::conformance::check(|| {
            let folder = tempfile::tempdir().unwrap();
            let store = SledStore::open(folder.path(), &options(key)).unwrap().store;
            folders.borrow_mut().push(folder);
            store
        });
    }
}

#[test]
fn what_was_committed_is_there_after_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = scope("infra/public");
    let mut store = reopen(folder.path());
    store.commit(promote(&at, object("a", 1, "one"))).unwrap();
    store.commit(promote(&at, object("a", 2, "two"))).unwrap();
    store.commit(promote(&at, object("large", 1, vec![7; 200_000]))).unwrap();
    let rest = Batch::default()
        .with(Change::Acknowledge(at.clone(), vec![resource("r", "body"), resource("large", vec![9; 700_000])]))
        .with(Change::Convict(at.clone(), verdict(1, 5)));
    store.commit(rest).unwrap();
    let (before, statistics) = (Contents::of(&store), store.statistics());
    assert_eq!((before.objects.len(), before.resources[0].1.len(), before.verdicts.len()), (3, 2, 1));
    drop(store);
    let store = reopen(folder.path());
    assert_eq!(Contents::of(&store), before);
    let again = store.statistics();
    assert_eq!((again.generation, again.versions), (statistics.generation, statistics.versions));
    assert!(again.bytes_on_disk > 900_000);
}

#[test]
fn nothing_is_written_where_nothing_changed() {
    let folder = tempfile::tempdir().unwrap();
    let at = scope("infra/public");
    let mut store = reopen(folder.path());
    let batch = promote(&at, object("a", 1, "one")).with(Change::Acknowledge(at.clone(), vec![resource("r", "x")]));
    store.commit(batch.clone()).unwrap();
    let generation = store.statistics().generation;
    store.commit(batch).unwrap();
    assert_eq!(store.statistics().generation, generation);
}

#[test]
fn what_is_not_named_any_more_leaves_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let at = scope("infra/public");
    let mut store = reopen(folder.path());
    for generation in 0..30 {
        store.commit(promote(&at, object("a", generation, vec![u8::try_from(generation).unwrap(); 100_000]))).unwrap();
    }
    drop(store);
    let db = loop {
        match sled::open(folder.path()) {
            Ok(db) => break db,
            Err(_) => std::thread::yield_now(),
        }
    };
    // Three versions of the two generations, each with two chunks and a head; two pages, two tables, two roots.
    assert_eq!(db.len(), 3 * 3 + 6);
}

fn changes() -> impl Strategy<Value = Change> {
    let at = prop_oneof![Just(scope("infra/one")), Just(scope("infra/two"))];
    let sizes = prop_oneof![4 => 0..200usize, 1 => 60_000..70_000usize];
    let promoted = (at.clone(), 0..4u8, 0..4u8, 0..3i64, sizes);
    prop_oneof![
        6 => promoted.prop_map(|(at, name, payload, generation, size)| {
            let sensitive = name == 0;
            let object = object(&format!("o{name}"), generation, vec![payload; size]);
            Change::Promote(at, holdfast_store::StoredObject { sensitive, ..object })
        }),
        1 => (0..4u8).prop_map(|name| Change::Forget(crate::common::key(&format!("o{name}")))),
        2 => (at.clone(), proptest::collection::vec((0..9u8, 0..3u8), 0..9)).prop_map(|(at, some)| {
            let made = |(name, body): (u8, u8)| resource(&format!("r{name}"), vec![body; 10]);
            Change::Acknowledge(at, some.into_iter().map(made).collect())
        }),
        2 => (at.clone(), 0..9u8, 0..9i64).prop_map(|(at, content, since)| Change::Convict(at, verdict(content, since))),
        1 => (at, 0..9u8).prop_map(|(at, content)| Change::Acquit(at, [content; 16])),
        1 => Just(Change::ForgetGateway("infra/two".into())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn it_holds_what_the_store_in_memory_holds(
        batches in proptest::collection::vec((proptest::collection::vec(changes(), 1..6), any::<bool>()), 1..12),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let open = || SledStore::open(folder.path(), &options(Some(1))).unwrap();
        let mut store = open().store;
        let mut model = MemoryStore::default();
        for (batch, restart) in batches {
            let batch = batch.into_iter().fold(Batch::default(), Batch::with);
            store.commit(batch.clone()).unwrap();
            model.commit(batch).unwrap();
            if restart {
                drop(store);
                let opened = open();
                prop_assert!(opened.notices.is_empty(), "{:?}", opened.notices);
                store = opened.store;
            }
            prop_assert_eq!(Contents::of(&store), Contents::of(&model));
        }
    }
}

#[test]
fn another_process_is_distinguished_from_damage() {
    let folder = tempfile::tempdir().unwrap();
    let held = open(folder.path());
    let error = SledStore::open(folder.path(), &options(None)).err().unwrap();
    assert!(matches!(error, holdfast_store::StoreError::InUse(_)), "{error}");
    drop(held);
    reopen(folder.path());
}
