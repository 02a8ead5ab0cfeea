//! The versions of objects that were proven good with the Envoys of one line.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_graph::ObjectKey;
use holdfast_store::record::VERSIONS_KEPT;

use crate::object::Object;

/// A version that was proven good.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// The object as it was.
    pub(crate) object: Arc<Object>,
    /// When it was proven, in seconds of Unix time.
    pub(crate) since: i64,
}

/// By object, the newest first; at most [`VERSIONS_KEPT`] of each.
#[derive(Debug, Default)]
pub(crate) struct LastValid {
    versions: BTreeMap<ObjectKey, Vec<Version>>,
}

impl LastValid {
    /// Takes in a version that was proven; true where it was not the newest already.
    pub(crate) fn promote(&mut self, object: &Arc<Object>, since: i64) -> bool {
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

    /// The object was deleted.
    pub(crate) fn forget(&mut self, key: &ObjectKey) -> bool {
        self.versions.remove(key).is_some()
    }

    /// The versions of an object, the newest first; those of another UID are none of its own.
    pub(crate) fn of<'a>(&'a self, key: &ObjectKey, uid: Option<&'a str>) -> impl Iterator<Item = &'a Version> {
        let versions = self.versions.get(key).into_iter().flatten();
        versions.filter(move |version| uid.is_none_or(|uid| *version.object.metadata.uid == *uid))
    }

    /// Every version, the older of an object first: promoting them in this order gives the same.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Version> {
        self.versions.values().flat_map(|versions| versions.iter().rev())
    }
}
