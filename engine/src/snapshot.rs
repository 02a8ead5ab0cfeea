//! The world at one moment: every object, immutable, cheap to clone.

use std::sync::Arc;

use holdfast_graph::ObjectKey;
use imbl::HashMap;

use crate::object::Object;

/// All objects at one moment. Cloning costs nothing; a change costs the logarithm of the number of objects.
#[derive(Clone, Debug, Default)]
pub struct ObjectSnapshot {
    objects: HashMap<ObjectKey, Arc<Object>>,
}

impl ObjectSnapshot {
    /// The object with this identity.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// Puts an object in; gives back the one it replaced.
    pub fn insert(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        self.objects.insert(object.key.clone(), object)
    }

    /// Takes an object out.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.objects.remove(key)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// All objects, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    /// All objects, in the order of their keys (sorted on each call: for reports, not for hot paths).
    pub fn sorted(&self) -> Vec<&Arc<Object>> {
        let mut objects: Vec<_> = self.objects.values().collect();
        objects.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        objects
    }
}
