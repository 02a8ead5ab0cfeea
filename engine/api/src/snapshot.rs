//! Object snapshots: all objects at one moment, immutable, cheap to clone.

use std::sync::Arc;

use holdfast_graph::{ObjectKey, visits};
use imbl::{HashMap, HashSet};

use crate::object::Object;

/// All objects at one moment. A clone takes constant time; a change is logarithmic in the number of objects.
#[derive(Clone, Debug, Default)]
pub struct ObjectSnapshot {
    objects: HashMap<ObjectKey, Arc<Object>>,
    /// Objects that exist, but are not in the snapshot because no version of them can be read.
    unreadable: HashSet<ObjectKey>,
}

impl ObjectSnapshot {
    /// Returns the object with this identity.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// Inserts an object; returns the one it replaced.
    pub fn insert(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        self.unreadable.remove(&object.key);
        self.objects.insert(object.key.clone(), object)
    }

    /// Records whether an object that is not in the snapshot exists, but cannot be read. Returns whether this is new.
    pub fn set_unreadable(&mut self, key: &ObjectKey, unreadable: bool) -> bool {
        match unreadable && !self.objects.contains_key(key) {
            true => self.unreadable.insert(key.clone()).is_none(),
            false => self.unreadable.remove(key).is_some(),
        }
    }

    /// Checks whether an object exists, but is not in the snapshot because it cannot be read.
    pub fn is_unreadable(&self, key: &ObjectKey) -> bool {
        self.unreadable.contains(key)
    }

    /// Removes an object, and returns it.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.objects.remove(key)
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns all objects, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        visits::objects(self.objects.len());
        self.objects.values()
    }

    /// Returns all objects in the order of their keys (sorted on each call: for reports, not for hot paths).
    pub fn sorted(&self) -> Vec<&Arc<Object>> {
        let mut objects: Vec<_> = self.iter().collect();
        objects.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        objects
    }
}
