//! The store in memory: for runs without a data folder and as the model that other backends are compared with.

use std::collections::BTreeMap;

use holdfast_graph::ObjectKey;

use crate::LastValidStore;
use crate::batch::{Batch, Change};
use crate::error::StoreError;
use crate::record::{Digest, Scope, StoredObject, StoredResource, VERSIONS_KEPT};

/// A store that ends with its process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    versions: BTreeMap<(Scope, ObjectKey), Vec<(Digest, StoredObject)>>,
    configurations: BTreeMap<Scope, Vec<(Digest, StoredResource)>>,
}

impl MemoryStore {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Promote(scope, object) => {
                let versions = self.versions.entry((scope, object.key.clone())).or_default();
                // Promoting the newest again changes nothing; an older one becomes the newest.
                versions.retain(|(_, known)| known.uid == object.uid && known.payload != object.payload);
                versions.insert(0, (Digest::of(&object.payload), object));
                versions.truncate(VERSIONS_KEPT);
            }
            Change::Forget(key) => self.versions.retain(|(_, known), _| *known != key),
            Change::Acknowledge(scope, mut resources) => {
                resources.sort_unstable_by(|a, b| (&a.type_url, &a.name).cmp(&(&b.type_url, &b.name)));
                let digested = resources.into_iter().map(|resource| (Digest::of(&resource.body), resource));
                self.configurations.insert(scope, digested.collect());
            }
            Change::ForgetGateway(gateway) => {
                self.versions.retain(|(scope, _), _| scope.gateway != gateway);
                self.configurations.retain(|scope, _| scope.gateway != gateway);
            }
        }
    }
}

impl LastValidStore for MemoryStore {
    fn commit(&mut self, batch: Batch) -> Result<(), StoreError> {
        batch.check()?;
        batch.into_changes().into_iter().for_each(|change| self.apply(change));
        Ok(())
    }

    fn versions(&self, scope: &Scope, key: &ObjectKey) -> Result<Vec<StoredObject>, StoreError> {
        let versions = self.versions.get(&(scope.clone(), key.clone()));
        let sound = |(digest, object): &(Digest, StoredObject)| match *digest == Digest::of(&object.payload) {
            true => Ok(object.clone()),
            false => Err(StoreError::Damaged { name: object.key.to_string() }),
        };
        versions.into_iter().flatten().map(sound).collect()
    }

    fn objects(&self, scope: &Scope) -> Result<Vec<ObjectKey>, StoreError> {
        Ok(self.versions.keys().filter(|(known, _)| known == scope).map(|(_, key)| key.clone()).collect())
    }

    fn configuration(&self, scope: &Scope) -> Result<Vec<StoredResource>, StoreError> {
        let sound = |(digest, resource): &(Digest, StoredResource)| match *digest == Digest::of(&resource.body) {
            true => Ok(resource.clone()),
            false => Err(StoreError::Damaged { name: resource.name.to_string() }),
        };
        self.configurations.get(scope).into_iter().flatten().map(sound).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_store_conforms() {
        crate::conformance::check(MemoryStore::default);
    }
}
