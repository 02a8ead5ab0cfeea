//! Builders, and what is in a store as one value that can be compared.

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

/// Opens without a key.
pub(crate) fn open(folder: &Path) -> Opened {
    SledStore::open(folder, &options(None)).unwrap()
}

/// Opens what must be sound.
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
    StoredResource {
        type_url: "type".into(),
        name: name.into(),
        version: [3; 16],
        sensitive: false,
        origins: vec![key(name)],
        body: body.into(),
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

/// Everything in a store.
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

    /// Is everything of this in the other too, configurations as a whole?
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.objects.iter().all(|it| other.objects.contains(it))
            && self.resources.iter().all(|it| other.resources.contains(it))
            && self.verdicts.iter().all(|it| other.verdicts.contains(it))
    }
}
