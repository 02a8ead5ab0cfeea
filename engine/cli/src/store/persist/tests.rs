//! Tests with the store in memory, and with a store that fails while it is set to.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::mpsc;

use bytes::Bytes;
use holdfast_graph::ObjectKey;
use holdfast_store::record::PAYLOAD_BYTES_MAX;
use holdfast_store::{Change, MemoryStore, Scope, StoreError, StoredObject, StoredResource, StoredVerdict};

use super::*;

const LONG: Duration = Duration::from_secs(60);
const PACE: Pace = Pace {
    between: Duration::from_millis(1),
    again_after: Duration::from_millis(1),
    again_after_max: Duration::from_millis(4),
};

/// A store in memory that tests can read, and set to fail.
#[derive(Clone, Default)]
struct Breakable {
    store: Arc<Mutex<MemoryStore>>,
    broken: Arc<AtomicBool>,
}

impl LastValidStore for Breakable {
    fn commit(&mut self, batch: Batch) -> Result<(), StoreError> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(StoreError::Full("a test".into()));
        }
        self.store.lock().unwrap().commit(batch)
    }

    fn scopes(&self) -> Result<Vec<Scope>, StoreError> {
        self.store.lock().unwrap().scopes()
    }

    fn versions(&self, scope: &Scope, key: &ObjectKey) -> Result<Vec<StoredObject>, StoreError> {
        self.store.lock().unwrap().versions(scope, key)
    }

    fn objects(&self, scope: &Scope) -> Result<Vec<ObjectKey>, StoreError> {
        self.store.lock().unwrap().objects(scope)
    }

    fn configuration(&self, scope: &Scope) -> Result<Vec<StoredResource>, StoreError> {
        self.store.lock().unwrap().configuration(scope)
    }

    fn verdicts(&self, scope: &Scope) -> Result<Vec<StoredVerdict>, StoreError> {
        self.store.lock().unwrap().verdicts(scope)
    }

    fn statistics(&self) -> Statistics {
        self.store.lock().unwrap().statistics()
    }
}

fn scope() -> Scope {
    Scope { gateway: "infra/public".into(), build: "1".into() }
}

fn promote(name: &str, generation: i64, bytes: usize) -> Batch {
    let key = ObjectKey::new("group", "Kind", "namespace", name);
    let mut payload = vec![0; bytes];
    payload.extend(generation.to_le_bytes());
    let payload = Bytes::from(payload);
    let object = StoredObject { key, uid: "u".into(), generation, since: 0, sensitive: false, payload };
    Batch::default().with(Change::Promote(scope(), object))
}

#[test]
fn what_is_given_is_stored() {
    let store = Breakable::default();
    let persist = Persist::with_pace(store.clone(), PACE, |_| {}).unwrap();
    assert!(persist.flush(Duration::ZERO), "nothing waits");
    for number in 0..100 {
        persist.commit(promote(&format!("o{number}"), 1, 0));
    }
    assert!(persist.flush(LONG));
    assert_eq!(store.objects(&scope()).unwrap().len(), 100);
    let persisted = persist.persisted();
    assert!((1..=100).contains(&persisted.commits) && persisted.errors == 0 && persisted.failing.is_none());
}

#[test]
fn what_could_not_be_stored_is_stored_later_and_in_order() {
    let store = Breakable::default();
    store.broken.store(true, Ordering::SeqCst);
    let persist = Persist::with_pace(store.clone(), PACE, |_| {}).unwrap();
    persist.commit(promote("a", 1, 0));
    assert!(!persist.flush(Duration::from_millis(20)));
    persist.commit(promote("a", 2, 0));
    while persist.persisted().errors < 3 {
        std::thread::yield_now();
    }
    assert!(persist.persisted().failing.is_some_and(|why| why.contains("a test")));
    persist.commit(promote("a", 3, 0));
    store.broken.store(false, Ordering::SeqCst);
    assert!(persist.flush(LONG));
    let key = &store.objects(&scope()).unwrap()[0];
    let kept: Vec<i64> = store.versions(&scope(), key).unwrap().iter().map(|object| object.generation).collect();
    assert_eq!(kept, [3, 2]);
    assert_eq!(persist.persisted().failing, None);
}

#[test]
fn a_write_that_hangs_is_seen_until_it_ends() {
    let (permit, permits) = mpsc::channel();
    let (begun, began) = mpsc::channel();
    let persist = Persist::with_pace(MemoryStore::default(), PACE, move |_| {
        begun.send(()).unwrap();
        permits.recv().unwrap();
    });
    let persist = persist.unwrap();
    let waits = || persist.persisted().waits;
    assert_eq!(waits(), None);
    persist.commit(promote("a", 1, 0));
    assert!(waits().is_some(), "queued");
    began.recv().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    persist.commit(promote("a", 2, 0));
    assert!(waits().is_some_and(|waits| waits >= Duration::from_millis(20)), "{:?}: the age of the older one", waits());
    permit.send(()).unwrap();
    began.recv().unwrap();
    assert!(waits().is_some(), "the younger one is not on the disk yet");
    permit.send(()).unwrap();
    assert!(persist.flush(LONG));
    assert_eq!(waits(), None);
}

#[test]
fn changes_that_wait_too_long_are_a_failure_of_the_store() {
    let of = |waits: u64, failing: Option<&str>| {
        let (waits, failing) = (Some(Duration::from_secs(waits)), failing.map(str::to_owned));
        Persisted { waits, failing, ..Persisted::default() }.not_stored()
    };
    assert_eq!(Persisted::default().not_stored(), None);
    assert_eq!(of(29, None), None);
    assert_eq!(of(31, None).as_deref(), Some("changes have waited for the disk for 31 s"));
    assert_eq!(of(31, Some("the disk is full")).as_deref(), Some("the disk is full"));
}

#[test]
fn one_that_is_too_large_hurts_no_other() {
    let store = Breakable::default();
    let persist = Persist::with_pace(store.clone(), PACE, |_| {}).unwrap();
    let mut batch = promote("a", 1, 0);
    batch.append(promote("large", 1, PAYLOAD_BYTES_MAX));
    batch.append(promote("b", 1, 0));
    persist.commit(batch);
    assert!(persist.flush(LONG));
    assert_eq!(store.objects(&scope()).unwrap().len(), 2);
    assert_eq!(persist.persisted().refused, 1);
}

#[test]
fn what_waits_is_merged_and_comes_to_the_same() {
    let verdict = |content: u8| {
        let key = ObjectKey::new("group", "Kind", "namespace", "a");
        let text: std::sync::Arc<str> = "x".into();
        StoredVerdict {
            content: [content; 16],
            key,
            section: text.clone(),
            generation: 1,
            detected_by: text.clone(),
            field: text.clone(),
            message: text,
            since: 1,
            witnesses: Vec::new(),
        }
    };
    let mut batch = Batch::default();
    for round in 0..5u8 {
        for name in ["a", "b", "c"] {
            batch.append(promote(name, i64::from(round), 0));
            // If a version is proven twice in a row, the version before it is kept.
            batch.append(promote(name, i64::from(round), 0));
        }
        batch.push(Change::Acknowledge(scope(), Vec::new()));
        batch.push(Change::Convict(scope(), verdict(round % 2)));
        if round == 2 {
            batch.push(Change::Forget(ObjectKey::new("group", "Kind", "namespace", "b")));
            batch.push(Change::Acquit(scope(), [0; 16]));
        }
        if round == 1 {
            batch.push(Change::ForgetGateway("infra/public".into()));
        }
    }
    let merged = super::merge::merged(batch.clone());
    assert!(merged.len() * 2 < batch.len(), "{} of {}", merged.len(), batch.len());
    let stored = |batch: Batch| {
        let mut store = MemoryStore::default();
        store.commit(batch).unwrap();
        let objects = store.objects(&scope()).unwrap();
        let versions: Vec<_> = objects.iter().flat_map(|key| store.versions(&scope(), key).unwrap()).collect();
        (versions, store.verdicts(&scope()).unwrap(), store.configuration(&scope()).unwrap())
    };
    assert_eq!(stored(merged), stored(batch));
}

#[test]
fn a_queue_that_grows_takes_no_more_than_there_is_to_know() {
    let store = Breakable::default();
    store.broken.store(true, Ordering::SeqCst);
    let persist = Persist::with_pace(store.clone(), PACE, |_| {}).unwrap();
    for round in 0..STORE_CHANGES_MAX as i64 + 100 {
        persist.commit(promote("a", round, 0));
    }
    assert!(persist.shared.queue().waiting.len() < STORE_CHANGES_MAX);
    store.broken.store(false, Ordering::SeqCst);
    assert!(persist.flush(LONG));
}

#[test]
fn what_waits_is_stored_before_it_ends() {
    let store = Breakable::default();
    let persist = Persist::with_pace(store.clone(), Pace { between: LONG, ..PACE }, |_| {}).unwrap();
    persist.commit(promote("a", 1, 0));
    assert!(persist.flush(LONG));
    // The next commit would wait for a minute.
    persist.commit(promote("b", 1, 0));
    let shared = persist.shared.clone();
    drop(persist);
    while !shared.ended.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    assert_eq!(store.objects(&scope()).unwrap().len(), 2);
}
