//! Builders, and the content of a store as one value for comparison.

use std::path::Path;

use bytes::Bytes;
use holdfast_graph::ObjectKey;
use holdfast_store::{
    Batch, Change, Key, LastValidStore, Opened, Options, Scope, SledStore, StoredObject, StoredResource, StoredVerdict,
};

pub(crate) const IDENTITY: &str = "cluster 1, holdfast.dev/gateway-controller";

pub(crate) fn options(key: Option<u8>) -> Options {
    Options { identity: IDENTITY.into(), key: key.map(|byte| Key::new([byte; 32])) }
}

/// Opens a store without a key.
pub(crate) fn open(folder: &Path) -> Opened {
    SledStore::open(folder, &options(None)).unwrap()
}

/// Opens a store that must be undamaged.
pub(crate) fn reopen(folder: &Path) -> SledStore {
    let Opened { store, notices } = open(folder);
    assert!(notices.is_empty(), "{notices:?}");
    store
}

pub(crate) fn scope(gateway: &str) -> Scope {
    Scope { gateway: gateway.into(), build: "1.40.0".into() }
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("group", "Kind", "namespace", name)
}

pub(crate) fn object(name: &str, generation: i64, payload: impl Into<Bytes>) -> StoredObject {
    let payload = payload.into();
    StoredObject { key: key(name), uid: "u".into(), generation, since: 1_700_000_000, sensitive: false, payload }
}

pub(crate) fn resource(name: &str, body: impl Into<Bytes>) -> StoredResource {
    let body = body.into();
    StoredResource {
        type_url: "type".into(),
        name: name.into(),
        version: std::array::from_fn(|at| blake3::hash(&body).as_bytes()[at]),
        sensitive: false,
        origins: vec![key(name)],
        body,
    }
}

pub(crate) fn verdict(content: u8, since: i64) -> StoredVerdict {
    StoredVerdict {
        content: [content; 16],
        key: key("broken"),
        section: "rules[0]".into(),
        generation: 2,
        detected_by: "nack".into(),
        field: "spec.rules[0]".into(),
        message: "missing ]".into(),
        since,
        witnesses: vec![[1; 16]],
    }
}

pub(crate) fn promote(scope: &Scope, object: StoredObject) -> Batch {
    Batch::default().with(Change::Promote(scope.clone(), object))
}

/// The whole content of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) objects: Vec<(Scope, StoredObject)>,
    pub(crate) resources: Vec<(Scope, Vec<StoredResource>)>,
    pub(crate) verdicts: Vec<(Scope, StoredVerdict)>,
}

impl Contents {
    pub(crate) fn of(store: &impl LastValidStore) -> Self {
        let mut contents = Self::default();
        for scope in store.scopes().unwrap() {
            for key in store.objects(&scope).unwrap() {
                let versions = store.versions(&scope, &key).unwrap();
                contents.objects.extend(versions.into_iter().map(|version| (scope.clone(), version)));
            }
            let resources = store.configuration(&scope).unwrap();
            if !resources.is_empty() {
                contents.resources.push((scope.clone(), resources));
            }
            let verdicts = store.verdicts(&scope).unwrap();
            contents.verdicts.extend(verdicts.into_iter().map(|verdict| (scope.clone(), verdict)));
        }
        contents
    }

    /// Returns whether the other has everything of this, with configurations compared as a whole.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.objects.iter().all(|it| other.objects.contains(it))
            && self.resources.iter().all(|it| other.resources.contains(it))
            && self.verdicts.iter().all(|it| other.verdicts.contains(it))
    }
}

/// Waits until sled has released a folder, and opens it beside the store, to damage its content.
pub(crate) fn sled(folder: &Path) -> sled::Db {
    loop {
        match sled::open(folder) {
            Ok(db) => return db,
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// Copies a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Returns the folders beside a store with names of set-aside folders.
pub(crate) fn set_aside(folder: &Path) -> Vec<String> {
    let own = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let names = std::fs::read_dir(folder.parent().unwrap()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter_map(|name| Some(name.strip_prefix(&own)?.to_owned())).collect();
    names.retain(|name| !name.is_empty());
    names.sort();
    names
}

/// Creates a small store with data of every kind, in its last generation and the previous one.
pub(crate) fn small(folder: &Path) -> (Contents, Contents) {
    let (one, two) = (scope("infra/one"), scope("infra/two"));
    let mut store = reopen(folder);
    let first = promote(&one, object("a", 1, "first of a"))
        .with(Change::Promote(one.clone(), object("b", 1, "first of b")))
        .with(Change::Promote(two.clone(), object("a", 1, "of the other")))
        .with(Change::Acknowledge(one.clone(), vec![resource("r", "old r"), resource("s", "s")]))
        .with(Change::Convict(one.clone(), verdict(1, 1)));
    store.commit(first).unwrap();
    let older = Contents::of(&store);
    let second = promote(&one, object("a", 2, "second of a"))
        .with(Change::Forget(key("b")))
        .with(Change::Acknowledge(one.clone(), vec![resource("r", "new r"), resource("s", "s")]))
        .with(Change::Convict(two, verdict(2, 2)))
        .with(Change::Acquit(one, [1; 16]));
    store.commit(second).unwrap();
    let newest = Contents::of(&store);
    (older, newest)
}
