//! Last valid versions: the versions of objects that were proven good by the Envoys of one scope.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::apis::closed_document::without_credentials;
use holdfast_api::apis::document;
use holdfast_api::object::Object;
use holdfast_graph::ObjectKey;
use holdfast_store::StoredObject;
use holdfast_store::record::VERSIONS_KEPT;

use crate::context::step_inputs::StepInputs;

/// A version that was proven good.
#[derive(Clone, Debug)]
pub struct Version {
    /// The object in this version.
    pub object: Arc<Object>,
    /// The time of the proof, in seconds of Unix time.
    pub since: i64,
}

/// The versions by object, the newest first; at most [`VERSIONS_KEPT`] per object.
#[derive(Debug, Default)]
pub struct LastValid {
    versions: BTreeMap<ObjectKey, Vec<Version>>,
}

impl LastValid {
    /// Adds a proven version; returns true if it was not the newest one already.
    pub fn promote(&mut self, object: &Arc<Object>, since: i64) -> bool {
        let versions = self.versions.entry(object.key.clone()).or_default();
        if let Some(newest) = versions.first_mut()
            && newest.object.metadata.uid == object.metadata.uid
            && newest.object.body == object.body
        {
            let same = newest.object.metadata == object.metadata;
            newest.object = object.clone();
            return !same;
        }
        versions.retain(|known| known.object.metadata.uid == object.metadata.uid && known.object.body != object.body);
        versions.insert(0, Version { object: object.clone(), since });
        versions.truncate(VERSIONS_KEPT);
        true
    }

    /// Removes the versions of a deleted object.
    pub fn forget(&mut self, key: &ObjectKey) -> bool {
        self.versions.remove(key).is_some()
    }

    /// Returns the versions of an object, the newest first. Versions with another UID belong to another object.
    pub fn of<'a>(&'a self, key: &ObjectKey, uid: Option<&'a str>) -> impl Iterator<Item = &'a Version> {
        let versions = self.versions.get(key).into_iter().flatten();
        versions.filter(move |version| uid.is_none_or(|uid| *version.object.metadata.uid == *uid))
    }

    /// Returns every version, the older ones of an object first: promotion in this order restores the same state.
    pub fn iter(&self) -> impl Iterator<Item = &Version> {
        self.versions.values().flat_map(|versions| versions.iter().rev())
    }
}

/// Returns a last valid version as it is stored. Without a key, an object with credentials is stored without them, so that
/// it can be closed after a restart.
pub(crate) fn to_store(object: &Object, since: i64, inputs: &StepInputs<'_>) -> Option<StoredObject> {
    let stored = document::stored(object, since)?;
    if stored.sensitive && !inputs.settings.fallback.stores_credentials {
        return without_credentials(object, since).or(Some(stored));
    }
    Some(stored)
}
