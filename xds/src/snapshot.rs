//! Snapshot of a fleet: every resource of every type, immutable, cheap to clone.

use std::sync::Arc;

use imbl::OrdMap;

use crate::{Resource, ResourceType};

/// All resources of one fleet (the Envoys of one Gateway) at one moment.
///
/// The cost of cloning and of changing one resource is the logarithm of the number of resources: the rest is shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    resources: [OrdMap<Arc<str>, Arc<Resource>>; ResourceType::ALL.len()],
}

impl Snapshot {
    /// Returns the resources of one type, ordered by name.
    pub fn of(&self, kind: ResourceType) -> &OrdMap<Arc<str>, Arc<Resource>> {
        &self.resources[kind as usize]
    }

    /// Returns one resource.
    pub fn get(&self, kind: ResourceType, name: &str) -> Option<&Arc<Resource>> {
        self.of(kind).get(name)
    }

    /// Inserts a resource, and replaces the one with its name.
    pub fn insert(&mut self, kind: ResourceType, resource: Arc<Resource>) {
        self.resources[kind as usize].insert(resource.name.clone(), resource);
    }

    /// Removes a resource.
    pub fn remove(&mut self, kind: ResourceType, name: &str) {
        self.resources[kind as usize].remove(name);
    }

    /// Returns the number of resources of all types.
    pub fn len(&self) -> usize {
        self.resources.iter().map(OrdMap::len).sum()
    }

    /// Returns whether there is no resource of any type.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
