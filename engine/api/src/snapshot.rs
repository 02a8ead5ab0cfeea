//! Object snapshots: all objects at one moment, immutable, cheap to clone.

use std::sync::Arc;

use holdfast_graph::ObjectKey;
use imbl::HashMap;

use crate::object::Object;

/// All objects at one moment. A clone takes constant time; a change is logarithmic in the number of objects.
#[derive(Clone, Debug, Default)]
pub struct ObjectSnapshot {
    objects: HashMap<ObjectKey, Arc<Object>>,
}

impl ObjectSnapshot {
    /// Returns the object with this identity.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// Inserts an object; returns the one it replaced.
    pub fn insert(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        self.objects.insert(object.key.clone(), object)
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
        self.objects.values()
    }

    /// Returns all objects in the order of their keys (sorted on each call: for reports, not for hot paths).
    pub fn sorted(&self) -> Vec<&Arc<Object>> {
        let mut objects: Vec<_> = self.objects.values().collect();
        objects.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        objects
    }
}
