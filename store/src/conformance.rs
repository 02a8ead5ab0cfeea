//! Conformance suite for backends; the tests of each backend run it.

use bytes::Bytes;
use holdfast_graph::ObjectKey;

use crate::record::{Digest, PAYLOAD_BYTES_MAX, TEXT_BYTES_MAX, VERDICTS_MAX};
use crate::{Batch, Change, LastValidStore, Scope, StoreError, StoredObject, StoredResource, StoredVerdict};

fn scope(gateway: &str, build: &str) -> Scope {
    Scope { gateway: gateway.into(), build: build.into() }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("group", "Kind", "namespace", name)
}

fn object(name: &str, uid: &str, generation: i64) -> StoredObject {
    let payload = Bytes::from(format!("{name} {uid} {generation}"));
    StoredObject {
        key: key(name),
        uid: uid.into(),
        generation,
        since: 1_700_000_000 + generation,
        sensitive: false,
        payload,
    }
}

fn resource(name: &str, body: &'static str) -> StoredResource {
    StoredResource {
        type_url: "type".into(),
        name: name.into(),
        version: std::array::from_fn(|at| Digest::of(body.as_bytes()).bytes()[at]),
        sensitive: false,
        origins: vec![key(name)],
        body: Bytes::from_static(body.as_bytes()),
    }
}

fn verdict(content: u8, since: i64) -> StoredVerdict {
    StoredVerdict {
        content: [content; 16],
        key: key("a"),
        section: "rules[1]".into(),
        generation: 5,
        detected_by: "probe".into(),
        field: "spec.rules[1]".into(),
        message: "missing ]".into(),
        since,
        witnesses: vec![[9; 16], [8; 16]],
    }
}

/// Runs the suite on empty stores that `make` creates.
///
/// # Panics
/// Panics where the backend does not conform: the suite is for tests.
#[allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a suite for tests")]
pub fn check<S: LastValidStore>(make: impl Fn() -> S) {
    keeps_two_versions_of_one_uid(&mut make());
    forgets_deleted_objects_in_every_scope(&mut make());
    keeps_scopes_apart(&mut make());
    replaces_configurations_as_a_whole(&mut make());
    refuses_a_batch_as_a_whole(&mut make());
    reports_what_it_holds(&mut make());
    gives_back_everything_of_a_record(&mut make());
    committing_again_changes_nothing(&mut make());
    keeps_verdicts_by_content(&mut make());
    keeps_the_newest_verdicts(&mut make());
    keeps_payloads_of_every_size(&mut make());
}

#[allow(clippy::unwrap_used, reason = "a suite for tests")]
fn generations(store: &impl LastValidStore, scope: &Scope, name: &str) -> Vec<i64> {
    store.versions(scope, &key(name)).unwrap().iter().map(|object| object.generation).collect()
}

#[allow(clippy::unwrap_used, reason = "a suite for tests")]
fn keeps_two_versions_of_one_uid(store: &mut impl LastValidStore) {
    let at = scope("infra/public", "1");
    for generation in 1..=3 {
        store.commit(Batch::default().with(Change::Promote(at.clone(), object("a", "u1", generation)))).unwrap();
    }
    assert_eq!(generations(store, &at, "a"), [3, 2]);
    store.commit(Batch::default().with(Change::Promote(at.clone(), object("a", "u1", 3)))).unwrap();
    assert_eq!(generations(store, &at, "a"), [3, 2], "promoting the newest again changes nothing");
    store.commit(Batch::default().with(Change::Promote(at.clone(), object("a", "u2", 1)))).unwrap();
    assert_eq!(generations(store, &at, "a"), [1], "another UID is another object");
}

#[allow(clippy::unwrap_used, reason = "a suite for tests")]
fn forgets_deleted_objects_in_every_scope(store: &mut impl LastValidStore) {
    let (old, new) = (scope("infra/public", "1"), scope("infra/public", "2"));
    let both = |batch: Batch, scope: &Scope| batch.with(Change::Promote(scope.clone(), object("a", "u", 1)));
    store.commit(both(both(Batch::default(), &old), &new)).unwrap();
    store.commit(Batch::default().with(Change::Promote(old.clone(), object("b", "u", 1)))).unwrap();
    store.commit(Batch::default().with(Change::Forget(key("a")))).unwrap();
    assert_eq!(store.objects(&old).unwrap(), [key("b")]);
    assert!(store.objects(&new).unwrap().is_empty());
    assert_eq!(store.scopes().unwrap(), [old], "a scope of which nothing is left is none");
}

#[allow(clippy::unwrap_used, reason = "a suite for tests")]
fn keeps_scopes_apart(store: &mut impl LastValidStore) {
    let (one, two) = (scope("infra/one", "1"), scope("infra/two", "1"));
    store.commit(Batch::default().with(Change::Promote(one.clone(), object("a", "u", 1)))).unwrap();
    store.commit(Batch::default().with(Change::Acknowledge(two.clone(), vec![resource("r", "x")]))).unwrap();
    assert!(store.versions(&two, &key("a")).unwrap().is_empty());
    assert!(store.configuration(&one).unwrap().is_empty());
    store.commit(Batch::default().with(Change::ForgetGateway("infra/two".into()))).unwrap();
    assert!(store.configuration(&two).unwrap().is_empty());
    assert_eq!(store.objects(&one).unwrap(), [key("a")]);
}

#[allow(clippy::unwrap_used, reason = "a suite for tests")]
fn replaces_configurations_as_a_whole(store: &mut impl LastValidStore) {
    let at = scope("infra/public", "1");
    let first = vec![resource("b", "1"), resource("a", "1")];
    store.commit(Batch::default().with(Change::Acknowledge(at.clone(), first))).unwrap();
    let names: Vec<_> = store.configuration(&at).unwrap().iter().map(|r| r.name.to_string()).collect();
    assert_eq!(names, ["a", "b"], "in order");
    store.commit(Batch::default().with(Change::Acknowledge(at.clone(), vec![resource("c", "2")]))).unwrap();
    assert_eq!(store.configuration(&at).unwrap(), [resource("c", "2")]);
}

#[allow(clippy::unwrap_used, reason = "a suite for tests")]
fn refuses_a_batch_as_a_whole(store: &mut impl LastValidStore) {
    let at = scope("infra/public", "1");
    let large = StoredObject { payload: Bytes::from(vec![0; PAYLOAD_BYTES_MAX + 1]), ..object("large", "u", 1) };
    let batch = Batch::default()
        .with(Change::Promote(at.clone(), object("a", "u", 1)))
        .with(Change::Promote(at.clone(), large));
    assert!(matches!(store.commit(batch), Err(StoreError::TooLarge { .. })));
    assert!(store.objects(&at).unwrap().is_empty(), "nothing of a refused batch is stored");
}

#[allow(clippy::unwrap_used, reason = "a suite for tests")]
fn reports_what_it_holds(store: &mut impl LastValidStore) {
    let (one, two) = (scope("infra/one", "1"), scope("infra/two", "1"));
    assert!(store.scopes().unwrap().is_empty());
    let mut batch = Batch::default();
    batch.push(Change::Convict(two.clone(), verdict(1, 1)));
    batch.push(Change::Promote(one.clone(), object("a", "u", 1)));
    batch.push(Change::Promote(one.clone(), object("a", "u", 2)));
    batch.push(Change::Acknowledge(one.clone(), vec![resource("r", "x"), resource("s", "x")]));
    store.commit(batch).unwrap();
    assert_eq!(store.scopes().unwrap(), [one.clone(), two], "in order");
    let statistics = store.statistics();
    let counted = (
        statistics.scopes,
        statistics.objects,
        statistics.versions,
        statistics.resources,
        statistics.verdicts,
        statistics.unreadable,
    );
    assert_eq!(counted, (2, 1, 2, 2, 1, 0));
    store.commit(Batch::default().with(Change::Acknowledge(one, Vec::new()))).unwrap();
    assert!(store.statistics().generation > statistics.generation);
    assert_eq!(store.statistics().resources, 0);
}

#[allow(clippy::unwrap_used, reason = "a suite for tests")]
fn gives_back_everything_of_a_record(store: &mut impl LastValidStore) {
    let at = scope("infra/public", "1");
    let sensitive = StoredObject { sensitive: true, since: -7, ..object("s", "u", 3) };
    let origins = vec![key("y"), ObjectKey::new("", "Kind", "", "x")];
    let body = StoredResource { sensitive: true, origins, ..resource("s", "secret") };
    let mut batch = Batch::default();
    batch.push(Change::Promote(at.clone(), sensitive.clone()));
    batch.push(Change::Acknowledge(at.clone(), vec![body.clone(), resource("a", "")]));
    batch.push(Change::Convict(at.clone(), verdict(1, 1)));
    store.commit(batch).unwrap();
    assert_eq!(store.versions(&at, &key("s")).unwrap(), [sensitive]);
    assert_eq!(store.configuration(&at).unwrap(), [resource("a", ""), body]);
    assert_eq!(store.verdicts(&at).unwrap(), [verdict(1, 1)]);
}

#[allow(clippy::unwrap_used, reason = "a suite for tests")]
fn committing_again_changes_nothing(store: &mut impl LastValidStore) {
    let at = scope("infra/public", "1");
    let later = StoredObject { since: 2_000_000_000, ..object("a", "u", 2) };
    let batch = Batch::default()
        .with(Change::Promote(at.clone(), object("a", "u", 1)))
        .with(Change::Promote(at.clone(), object("a", "u", 2)))
        .with(Change::Promote(at.clone(), later))
        .with(Change::Acknowledge(at.clone(), vec![resource("r", "old"), resource("r", "new")]))
        .with(Change::Convict(at.clone(), verdict(1, 1)));
    for _ in 0..2 {
        store.commit(batch.clone()).unwrap();
        let kept = store.versions(&at, &key("a")).unwrap();
        assert_eq!(kept.first(), Some(&object("a", "u", 2)), "it was proven good when it was first");
        assert_eq!(store.configuration(&at).unwrap(), [resource("r", "new")], "of two of one name the last counts");
        assert_eq!(store.verdicts(&at).unwrap(), [verdict(1, 1)]);
    }
}

#[allow(clippy::unwrap_used, reason = "a suite for tests")]
fn keeps_verdicts_by_content(store: &mut impl LastValidStore) {
    let (at, other) = (scope("infra/public", "1"), scope("infra/public", "2"));
    let mut batch = Batch::default();
    for (content, since) in [(1, 30), (2, 10), (3, 20)] {
        batch.push(Change::Convict(at.clone(), verdict(content, since)));
    }
    batch.push(Change::Convict(other.clone(), verdict(1, 30)));
    store.commit(batch).unwrap();
    assert_eq!(store.verdicts(&at).unwrap(), [verdict(2, 10), verdict(3, 20), verdict(1, 30)], "the oldest first");
    let again = StoredVerdict { message: "another".into(), ..verdict(1, 40) };
    let batch = Batch::default()
        .with(Change::Forget(key("a")))
        .with(Change::Acquit(at.clone(), [2; 16]))
        .with(Change::Acquit(at.clone(), [77; 16]))
        .with(Change::Convict(at.clone(), again.clone()));
    store.commit(batch).unwrap();
    assert_eq!(store.verdicts(&at).unwrap(), [verdict(3, 20), again], "what was refused outlives its object");
    assert_eq!(store.verdicts(&other).unwrap(), [verdict(1, 30)]);
    store.commit(Batch::default().with(Change::ForgetGateway("infra/public".into()))).unwrap();
    assert!(store.scopes().unwrap().is_empty());
}

#[allow(clippy::unwrap_used, reason = "a suite for tests")]
fn keeps_the_newest_verdicts(store: &mut impl LastValidStore) {
    let at = scope("infra/public", "1");
    let numbered = |number: usize| StoredVerdict {
        content: (number as u128).to_be_bytes(),
        since: i64::try_from(number).unwrap_or_default(),
        ..verdict(0, 0)
    };
    let convict = |batch: Batch, number: usize| batch.with(Change::Convict(at.clone(), numbered(number)));
    store.commit((0..VERDICTS_MAX + 3).fold(Batch::default(), convict)).unwrap();
    let kept = store.verdicts(&at).unwrap();
    assert_eq!(kept.len(), VERDICTS_MAX);
    assert_eq!(kept.first(), Some(&numbered(3)), "the oldest goes");
    let long = StoredVerdict { message: "x".repeat(TEXT_BYTES_MAX + 1).into(), ..verdict(1, 1) };
    let refused = store.commit(Batch::default().with(Change::Convict(at.clone(), long)));
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })));
}

#[allow(clippy::unwrap_used, reason = "a suite for tests")]
fn keeps_payloads_of_every_size(store: &mut impl LastValidStore) {
    let at = scope("infra/public", "1");
    let sizes = [0, 1, 65_535, 65_536, 65_537, 300_000];
    let sized = |bytes: usize| StoredObject {
        payload: (0..bytes).map(|n| u8::try_from(n % 251).unwrap_or_default()).collect(),
        ..object(&format!("o{bytes}"), "u", 1)
    };
    let promote = |batch: Batch, bytes: usize| batch.with(Change::Promote(at.clone(), sized(bytes)));
    store.commit(sizes.into_iter().fold(Batch::default(), promote)).unwrap();
    for bytes in sizes {
        let kept = store.versions(&at, &sized(bytes).key).unwrap();
        assert!(kept == [sized(bytes)], "{bytes} bytes");
    }
}
