//! What every backend must do, as a suite that each backend's tests run.

use bytes::Bytes;
use holdfast_graph::ObjectKey;

use crate::record::PAYLOAD_BYTES_MAX;
use crate::{Batch, Change, LastValidStore, Scope, StoreError, StoredObject, StoredResource};

fn scope(gateway: &str, build: &str) -> Scope {
    Scope { gateway: gateway.into(), build: build.into() }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("group", "Kind", "namespace", name)
}

fn object(name: &str, uid: &str, generation: i64) -> StoredObject {
    let payload = Bytes::from(format!("{name} {uid} {generation}"));
    StoredObject { key: key(name), uid: uid.into(), generation, payload }
}

fn resource(name: &str, body: &'static str) -> StoredResource {
    StoredResource {
        type_url: "type".into(),
        name: name.into(),
        version: [7; 16],
        body: Bytes::from_static(body.as_bytes()),
    }
}

/// Runs the suite on empty stores that `make` makes.
///
/// # Panics
/// Where the backend does not conform: this is for tests.
#[allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a suite for tests")]
pub fn check<S: LastValidStore>(make: impl Fn() -> S) {
    keeps_two_versions_of_one_uid(&mut make());
    forgets_deleted_objects_in_every_scope(&mut make());
    keeps_scopes_apart(&mut make());
    replaces_configurations_as_a_whole(&mut make());
    refuses_a_batch_as_a_whole(&mut make());
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
