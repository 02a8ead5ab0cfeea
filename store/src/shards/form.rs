//! Encoded forms in blobs: only types of this crate, with plain fields. A change here is a new schema.

use std::sync::Arc;

use bincode::{Decode, Encode};
use bytes::Bytes;
use holdfast_graph::ObjectKey;

use super::{LEAF_BYTES_MAX, Offer, OnTrial, ScopeOffers};
use crate::form::{KeyForm, VerdictForm};
use crate::record::{StoredObject, StoredResource, StoredVerdict};

/// Product name in the manifest of a shared store.
pub(super) const PRODUCT: &str = "holdfast shared store";

/// Manifest of a generation: all of its leaves.
#[derive(Encode, Decode)]
pub(super) struct ManifestForm {
    pub(super) product: String,
    pub(super) identity: String,
    pub(super) generation: u64,
    pub(super) scopes: Vec<SharedScopeForm>,
}

/// A scope with its leaves.
#[derive(Encode, Decode)]
pub(super) struct SharedScopeForm {
    pub(super) gateway: Arc<str>,
    pub(super) build: Arc<str>,
    pub(super) leaves: Vec<LeafForm>,
}

/// A leaf: records that are written together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub(super) struct LeafForm {
    /// The generation that wrote the leaf.
    pub(super) generation: u64,
    /// Digest by which the leaf is identified.
    pub(super) digest: [u8; 32],
    /// Number of blobs.
    pub(super) parts: u32,
    /// Size in the blobs, in bytes.
    pub(super) bytes: u64,
}

/// A version of an object without its identity.
#[derive(Encode, Decode)]
pub(super) struct SharedVersionForm {
    uid: Arc<str>,
    generation: i64,
    since: i64,
    sensitive: bool,
    payload: Vec<u8>,
}

/// A stored record.
#[derive(Encode, Decode)]
pub(super) enum RecordForm {
    /// An object with its versions, the newest first.
    Object(KeyForm, Vec<SharedVersionForm>),
    /// A resource that was acknowledged.
    Resource(SharedResourceForm),
    /// A verdict.
    Verdict(Box<VerdictForm>),
    /// The contents on offer.
    Offers(OffersForm),
}

/// Form of a resource.
#[derive(Encode, Decode)]
pub(super) struct SharedResourceForm {
    type_url: Arc<str>,
    name: Arc<str>,
    version: [u8; 16],
    sensitive: bool,
    origins: Vec<KeyForm>,
    body: Vec<u8>,
}

/// Form of the contents on offer: to all Envoys, and to a single one.
#[derive(Encode, Decode)]
pub(super) struct OffersForm {
    all: Vec<(u8, [u8; 16])>,
    trial: Option<TrialForm>,
}

/// Form of a trial at one Envoy: the Envoy, the contents, and the objects that are tried separately.
type TrialForm = (Arc<str>, Vec<[u8; 16]>, Vec<KeyForm>);

impl From<&ScopeOffers> for OffersForm {
    fn from(offers: &ScopeOffers) -> Self {
        let trial = offers
            .trial
            .as_ref()
            .map(|trial| (trial.node.clone(), trial.contents.clone(), trial.apart.iter().map(KeyForm::from).collect()));
        Self { all: offers.all.iter().map(|offer| (offer.kind, offer.content)).collect(), trial }
    }
}

impl From<&OffersForm> for ScopeOffers {
    fn from(form: &OffersForm) -> Self {
        let trial = form.trial.as_ref().map(|(node, contents, apart)| OnTrial {
            node: node.clone(),
            contents: contents.clone(),
            apart: apart.iter().map(ObjectKey::from).collect(),
        });
        Self { all: form.all.iter().map(|(kind, content)| Offer { kind: *kind, content: *content }).collect(), trial }
    }
}

/// Returns the form of an object.
pub(super) fn object(key: &ObjectKey, versions: Vec<StoredObject>) -> RecordForm {
    let form = |object: StoredObject| SharedVersionForm {
        uid: object.uid,
        generation: object.generation,
        since: object.since,
        sensitive: object.sensitive,
        payload: object.payload.to_vec(),
    };
    RecordForm::Object(key.into(), versions.into_iter().map(form).collect())
}

/// Returns the versions of an object from their form, the newest first.
pub(super) fn objects(key: &KeyForm, versions: &[SharedVersionForm]) -> Vec<StoredObject> {
    let key: ObjectKey = key.into();
    let object = |form: &SharedVersionForm| StoredObject {
        key: key.clone(),
        uid: form.uid.clone(),
        generation: form.generation,
        since: form.since,
        sensitive: form.sensitive,
        payload: Bytes::copy_from_slice(&form.payload),
    };
    versions.iter().map(object).collect()
}

/// Returns the form of a resource.
pub(super) fn resource(resource: StoredResource) -> RecordForm {
    RecordForm::Resource(SharedResourceForm {
        type_url: resource.type_url,
        name: resource.name,
        version: resource.version,
        sensitive: resource.sensitive,
        origins: resource.origins.iter().map(KeyForm::from).collect(),
        body: resource.body.to_vec(),
    })
}

impl From<&SharedResourceForm> for StoredResource {
    fn from(form: &SharedResourceForm) -> Self {
        Self {
            type_url: form.type_url.clone(),
            name: form.name.clone(),
            version: form.version,
            sensitive: form.sensitive,
            origins: form.origins.iter().map(ObjectKey::from).collect(),
            body: Bytes::copy_from_slice(&form.body),
        }
    }
}

/// Returns the form of a verdict.
pub(super) fn verdict(verdict: StoredVerdict) -> RecordForm {
    RecordForm::Verdict(Box::new(VerdictForm::from(&verdict)))
}

/// Encodes a form.
pub(super) fn encode(form: &impl Encode) -> Option<Vec<u8>> {
    bincode::encode_to_vec(form, bincode::config::standard()).ok()
}

/// Decodes a form; no bytes may be left over.
pub(super) fn decode<T: Decode<()>>(bytes: &[u8]) -> Option<T> {
    let config = bincode::config::standard().with_limit::<LEAF_BYTES_MAX>();
    bincode::decode_from_slice(bytes, config)
        .ok()
        .filter(|(_, consumed)| *consumed == bytes.len())
        .map(|(form, _)| form)
}
