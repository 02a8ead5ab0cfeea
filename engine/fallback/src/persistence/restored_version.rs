//! A proven version of an object in restored state. A stored version is decoded when it is needed: the stored
//! configuration is served before that, and most stored versions are those of the current objects.

use std::sync::Arc;

use holdfast_api::apis::{closed_document, document};
use holdfast_api::object::Object;
use holdfast_graph::ObjectKey;
use holdfast_store::StoredObject;

use crate::context::step_inputs::StepInputs;
use crate::evidence::last_valid::Version;

/// A proven version of an object.
#[derive(Clone, Debug)]
pub(crate) enum RestoredVersion {
    /// As a store has it.
    Stored(StoredObject),
    /// A version of a scope of this run.
    Known(Version),
}

impl RestoredVersion {
    /// Returns the object.
    pub(crate) fn key(&self) -> &ObjectKey {
        match self {
            Self::Stored(stored) => &stored.key,
            Self::Known(version) => &version.object.key,
        }
    }

    /// Returns the UID of the object.
    pub(crate) fn uid(&self) -> &str {
        match self {
            Self::Stored(stored) => &stored.uid,
            Self::Known(version) => &version.object.metadata.uid,
        }
    }

    /// Returns the time of the proof, in seconds of Unix time.
    pub(crate) fn since(&self) -> i64 {
        match self {
            Self::Stored(stored) => stored.since,
            Self::Known(version) => version.since,
        }
    }

    /// Returns the version. Returns `None` if it does not decode as it was stored.
    pub(crate) fn version(&self) -> Option<Version> {
        match self {
            Self::Stored(stored) => {
                Some(Version { object: Arc::new(document::restored(stored)?), since: stored.since })
            }
            Self::Known(version) => Some(version.clone()),
        }
    }

    /// Returns whether the credentials of the version were not stored: it is of use only to close requests.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Stored(stored) if closed_document::is_closed(stored))
    }

    /// Returns an object with credentials that were not stored, in the form that closes its requests.
    pub(crate) fn closed(&self) -> Option<Arc<Object>> {
        match self {
            Self::Stored(stored) => Some(Arc::new(closed_document::closed(stored)?)),
            Self::Known(_) => None,
        }
    }

    /// As [`RestoredVersion::version`], with the current object in place of an equal one.
    pub(crate) fn version_among(&self, inputs: &StepInputs<'_>) -> Option<Version> {
        match self {
            Self::Stored(stored) => match current(stored, inputs) {
                Some(object) => Some(Version { object: object.clone(), since: stored.since }),
                None => self.version(),
            },
            Self::Known(version) => Some(version.clone()),
        }
    }
}

/// Returns the current object if it would be stored as this version. A part of an object that could not be read is not
/// stored, so a version of such an object is decoded.
fn current<'a>(stored: &StoredObject, inputs: &StepInputs<'a>) -> Option<&'a Arc<Object>> {
    let object = inputs.objects.get(&stored.key)?;
    let may_be_equal = object.metadata.uid == stored.uid
        && object.metadata.generation == stored.generation
        && inputs.is_whole(&stored.key)
        && !inputs.unusable.contains(&stored.key);
    let is_equal = || document::stored(object, stored.since).is_some_and(|current| current == *stored);
    (may_be_equal && is_equal()).then_some(object)
}
