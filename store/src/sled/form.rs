//! Encoded forms: only types of this crate, with plain fields. A change here is a new schema.

use std::sync::Arc;

use bincode::{Decode, Encode};
use bytes::Bytes;
use holdfast_graph::ObjectKey;

use super::keys::{self, Name};
use super::section::SectionEntry;
use crate::form::{KeyForm, VerdictForm};
use crate::record::{Digest, Scope, StoredResource, StoredVerdict};

/// Product name in the root of a store.
pub(super) const PRODUCT: &str = "holdfast last valid store";

/// Root of a generation: all stored data is reachable from here.
#[derive(Encode, Decode)]
pub(super) struct RootForm {
    pub(super) product: String,
    pub(super) identity: String,
    pub(super) generation: u64,
    pub(super) scopes: Vec<ScopeForm>,
}

/// A scope with the tables of its objects, resources and verdicts.
#[derive(Encode, Decode)]
pub(super) struct ScopeForm {
    pub(super) gateway: Arc<str>,
    pub(super) build: Arc<str>,
    pub(super) tables: [Option<[u8; 32]>; 3],
}

/// The pages of a section.
#[derive(Encode, Decode)]
pub(super) struct PageTable {
    pub(super) pages: Vec<(u8, [u8; 32])>,
}

/// Entries of a page. The page includes its place, so that two pages are never one record.
#[derive(Encode, Decode)]
pub(super) struct PageForm<F> {
    pub(super) place: [u8; 16],
    pub(super) entries: Vec<F>,
}

/// Location of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ContentPlace {
    /// On the disk.
    Disk,
    /// In memory only: there is no key for sealing.
    Memory(Bytes),
    /// On the disk, sealed with a key that is not available.
    Unreadable,
}

/// A payload, identified by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredContent {
    pub(super) digest: Digest,
    pub(super) bytes: u64,
    pub(super) sensitive: bool,
    pub(super) place: ContentPlace,
}

impl StoredContent {
    pub(super) fn on_disk(&self) -> bool {
        !matches!(self.place, ContentPlace::Memory(_))
    }

    pub(super) fn readable(&self) -> bool {
        self.place != ContentPlace::Unreadable
    }
}

#[derive(Encode, Decode)]
pub(super) struct ContentForm {
    digest: [u8; 32],
    bytes: u64,
    sealed: bool,
}

impl From<&StoredContent> for ContentForm {
    fn from(content: &StoredContent) -> Self {
        Self { digest: *content.digest.bytes(), bytes: content.bytes, sealed: content.sensitive }
    }
}

impl From<ContentForm> for StoredContent {
    fn from(form: ContentForm) -> Self {
        let ContentForm { digest, bytes, sealed: sensitive } = form;
        Self { digest: Digest::from_bytes(digest), bytes, sensitive, place: ContentPlace::Disk }
    }
}

/// The versions of an object, the newest first.
pub(super) type Versions = Vec<VersionEntry>;

/// A version of an object without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VersionEntry {
    pub(super) uid: Arc<str>,
    pub(super) generation: i64,
    pub(super) since: i64,
    pub(super) content: StoredContent,
}

#[derive(Encode, Decode)]
pub(super) struct VersionForm {
    uid: Arc<str>,
    generation: i64,
    since: i64,
    content: ContentForm,
}

impl SectionEntry for Versions {
    type Key = ObjectKey;
    type Form = (KeyForm, Vec<VersionForm>);
    const SECTION: u8 = 0;

    fn page(key: &ObjectKey) -> u8 {
        keys::page(&keys::segments(key).map(str::as_bytes))
    }

    fn form(&self, key: &ObjectKey) -> Option<Self::Form> {
        let form = |version: &VersionEntry| VersionForm {
            uid: version.uid.clone(),
            generation: version.generation,
            since: version.since,
            content: (&version.content).into(),
        };
        let forms: Vec<_> = self.iter().filter(|version| version.content.on_disk()).map(form).collect();
        (!forms.is_empty()).then(|| (key.into(), forms))
    }

    fn from_form((key, forms): Self::Form) -> (ObjectKey, Self) {
        let version = |form: VersionForm| VersionEntry {
            uid: form.uid,
            generation: form.generation,
            since: form.since,
            content: form.content.into(),
        };
        ((&key).into(), forms.into_iter().map(version).collect())
    }

    fn contents(&self) -> Vec<&StoredContent> {
        self.iter().map(|version| &version.content).collect()
    }

    fn name(scope: &Scope, key: &ObjectKey, content: &StoredContent) -> Name {
        keys::content(&keys::place(Self::SECTION, scope, &keys::segments(key)), &content.digest)
    }

    fn retain(&mut self, wanted: &mut dyn FnMut(&mut StoredContent) -> bool) -> bool {
        self.retain_mut(|version| wanted(&mut version.content));
        !self.is_empty()
    }
}

/// A resource without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceEntry {
    pub(super) version: [u8; 16],
    pub(super) origins: Arc<[ObjectKey]>,
    pub(super) content: StoredContent,
}

impl ResourceEntry {
    /// Returns whether the entry is of this resource, by its version: the digest of the body need not be computed.
    pub(super) fn is_of(&self, resource: &StoredResource) -> bool {
        let StoredContent { bytes, sensitive, .. } = self.content;
        self.content.readable()
            && (self.version, bytes, sensitive) == (resource.version, resource.body.len() as u64, resource.sensitive)
            && *self.origins == *resource.origins
    }
}

#[derive(Encode, Decode)]
pub(super) struct ResourceForm {
    type_url: Arc<str>,
    name: Arc<str>,
    version: [u8; 16],
    origins: Vec<KeyForm>,
    content: ContentForm,
}

impl SectionEntry for ResourceEntry {
    /// Type and name.
    type Key = (Arc<str>, Arc<str>);
    type Form = ResourceForm;
    const SECTION: u8 = 1;

    fn page((type_url, name): &Self::Key) -> u8 {
        keys::page(&[type_url.as_bytes(), name.as_bytes()])
    }

    fn form(&self, (type_url, name): &Self::Key) -> Option<ResourceForm> {
        self.content.on_disk().then(|| ResourceForm {
            type_url: type_url.clone(),
            name: name.clone(),
            version: self.version,
            origins: self.origins.iter().map(KeyForm::from).collect(),
            content: (&self.content).into(),
        })
    }

    fn from_form(form: ResourceForm) -> (Self::Key, Self) {
        let origins = form.origins.iter().map(ObjectKey::from).collect();
        ((form.type_url, form.name), Self { version: form.version, origins, content: form.content.into() })
    }

    fn contents(&self) -> Vec<&StoredContent> {
        vec![&self.content]
    }

    fn name(scope: &Scope, (type_url, name): &Self::Key, content: &StoredContent) -> Name {
        keys::content(&keys::place(Self::SECTION, scope, &[type_url, name]), &content.digest)
    }

    fn retain(&mut self, wanted: &mut dyn FnMut(&mut StoredContent) -> bool) -> bool {
        wanted(&mut self.content)
    }
}

impl SectionEntry for Arc<StoredVerdict> {
    type Key = [u8; 16];
    type Form = VerdictForm;
    const SECTION: u8 = 2;

    fn page(key: &[u8; 16]) -> u8 {
        keys::page(&[key])
    }

    fn form(&self, _: &[u8; 16]) -> Option<VerdictForm> {
        Some(VerdictForm::from(&**self))
    }

    fn from_form(form: VerdictForm) -> ([u8; 16], Self) {
        let verdict = StoredVerdict::from(&form);
        (verdict.content, Arc::new(verdict))
    }

    fn contents(&self) -> Vec<&StoredContent> {
        Vec::new()
    }

    fn name(_: &Scope, key: &[u8; 16], _: &StoredContent) -> Name {
        key.to_vec()
    }

    fn retain(&mut self, _: &mut dyn FnMut(&mut StoredContent) -> bool) -> bool {
        true
    }
}
