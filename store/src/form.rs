//! Encoded forms that all stores with bytes share: only types of this crate, with plain fields. A change here is a new
//! schema of each of these stores.

use std::sync::Arc;

use bincode::{Decode, Encode};
use holdfast_graph::ObjectKey;

use crate::record::StoredVerdict;

/// Form of an identity.
#[derive(Clone, Encode, Decode)]
pub(crate) struct KeyForm([Arc<str>; 4]);

impl From<&ObjectKey> for KeyForm {
    fn from(key: &ObjectKey) -> Self {
        Self([key.group.clone(), key.kind.clone(), key.namespace.clone(), key.name.clone()])
    }
}

impl From<&KeyForm> for ObjectKey {
    fn from(KeyForm([group, kind, namespace, name]): &KeyForm) -> Self {
        Self::new(group.clone(), kind.clone(), namespace.clone(), name.clone())
    }
}

/// Form of a verdict.
#[derive(Encode, Decode)]
pub(crate) struct VerdictForm {
    content: [u8; 16],
    key: KeyForm,
    section: Arc<str>,
    generation: i64,
    detected_by: Arc<str>,
    field: Arc<str>,
    message: Arc<str>,
    since: i64,
    witnesses: Vec<[u8; 16]>,
}

impl From<&StoredVerdict> for VerdictForm {
    fn from(verdict: &StoredVerdict) -> Self {
        Self {
            content: verdict.content,
            key: (&verdict.key).into(),
            section: verdict.section.clone(),
            generation: verdict.generation,
            detected_by: verdict.detected_by.clone(),
            field: verdict.field.clone(),
            message: verdict.message.clone(),
            since: verdict.since,
            witnesses: verdict.witnesses.clone(),
        }
    }
}

impl From<&VerdictForm> for StoredVerdict {
    fn from(form: &VerdictForm) -> Self {
        Self {
            content: form.content,
            key: (&form.key).into(),
            section: form.section.clone(),
            generation: form.generation,
            detected_by: form.detected_by.clone(),
            field: form.field.clone(),
            message: form.message.clone(),
            since: form.since,
            witnesses: form.witnesses.clone(),
        }
    }
}
