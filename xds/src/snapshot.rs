//! What a fleet should have: every resource of every type, immutable, cheap to clone.

use std::sync::Arc;

use imbl::OrdMap;

use crate::{Resource, ResourceType};

/// All resources of one fleet (the Envoys of one Gateway) at one moment.
///
/// Cloning and changing one resource cost the logarithm of the number of resources: the rest is shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    resources: [OrdMap<Arc<str>, Arc<Resource>>; ResourceType::ALL.len()],
}

impl Snapshot {
    /// The resources of one type by name, in order.
    pub fn of(&self, kind: ResourceType) -> &OrdMap<Arc<str>, Arc<Resource>> {
        &self.resources[kind as usize]
    }

    /// One resource.
    pub fn get(&self, kind: ResourceType, name: &str) -> Option<&Arc<Resource>> {
        self.of(kind).get(name)
    }

    /// Puts a resource in, in the place of the one with its name.
    pub fn insert(&mut self, kind: ResourceType, resource: Arc<Resource>) {
        self.resources[kind as usize].insert(resource.name.clone(), resource);
    }

    /// Takes a resource out.
    pub fn remove(&mut self, kind: ResourceType, name: &str) {
        self.resources[kind as usize].remove(name);
    }

    /// How many resources there are of all types.
    pub fn len(&self) -> usize {
        self.resources.iter().map(OrdMap::len).sum()
    }

    /// True where there is no resource of any type.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
