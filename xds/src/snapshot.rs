//! What a fleet should have: every resource of every type, immutable, cheap to clone.

use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

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

    /// This snapshot, sharing with an earlier one all that is the same in both, and whether any content differs.
    ///
    /// Costs what differs where the two share structure already, else one comparison per resource: done once here so
    /// that it isn't done by every client.
    pub fn sharing(&self, earlier: &Snapshot) -> (Snapshot, bool) {
        let mut shared = earlier.clone();
        let mut differs = false;
        for kind in ResourceType::ALL {
            let (old, new) = (earlier.of(kind), self.of(kind));
            for item in old.diff(new) {
                match item {
                    DiffItem::Add(_, resource) => {
                        differs = true;
                        shared.insert(kind, resource.clone());
                    }
                    DiffItem::Update { old: (_, old), new: (_, new) } => {
                        differs |= old.version != new.version;
                        shared.insert(kind, new.clone());
                    }
                    DiffItem::Remove(name, _) => {
                        differs = true;
                        shared.remove(kind, name);
                    }
                }
            }
        }
        (shared, differs)
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
