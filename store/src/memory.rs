//! Store in memory: for runs without a data folder, and the model with which other backends are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use crate::LastValidStore;
use crate::batch::{Batch, Change, count};
use crate::error::StoreError;
use crate::record::{
    Digest, OBJECTS_MAX, SCOPES_MAX, Scope, Statistics, StoredObject, StoredResource, StoredVerdict, VERDICTS_MAX,
    VERSIONS_KEPT,
};

type StoredResources = BTreeMap<(Arc<str>, Arc<str>), (Digest, StoredResource)>;

/// A store that ends with its process.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    generation: u64,
    shelves: BTreeMap<Scope, ScopeShelf>,
}

/// The data of a scope.
#[derive(Clone, Debug, Default)]
struct ScopeShelf {
    versions: BTreeMap<ObjectKey, Vec<(Digest, StoredObject)>>,
    configuration: StoredResources,
    verdicts: BTreeMap<[u8; 16], StoredVerdict>,
}

impl ScopeShelf {
    fn promote(&mut self, object: StoredObject) {
        let versions = self.versions.entry(object.key.clone()).or_default();
        let same = |known: &StoredObject| {
            known.payload == object.payload && known.uid == object.uid && known.generation == object.generation
        };
        if versions.first().is_some_and(|(_, newest)| same(newest) && newest.sensitive == object.sensitive) {
            return;
        }
        // An older version that is proven good again becomes the newest.
        versions.retain(|(_, known)| known.uid == object.uid && known.payload != object.payload);
        versions.insert(0, (Digest::of(&object.payload), object));
        versions.truncate(VERSIONS_KEPT);
    }

    fn convict(&mut self, verdict: StoredVerdict) {
        self.verdicts.insert(verdict.content, verdict);
        while self.verdicts.len() > VERDICTS_MAX {
            let oldest = self.verdicts.values().min_by_key(|verdict| (verdict.since, verdict.content));
            let Some(content) = oldest.map(|verdict| verdict.content) else { return };
            self.verdicts.remove(&content);
        }
    }

    fn is_empty(&self) -> bool {
        self.versions.is_empty() && self.configuration.is_empty() && self.verdicts.is_empty()
    }
}

impl MemoryStore {
    fn shelf(&mut self, scope: Scope) -> &mut ScopeShelf {
        self.shelves.entry(scope).or_default()
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Promote(scope, object) => self.shelf(scope).promote(object),
            Change::Forget(key) => self.shelves.values_mut().for_each(|shelf| {
                shelf.versions.remove(&key);
            }),
            Change::Acknowledge(scope, resources) => {
                let named = |resource: StoredResource| {
                    let name = (resource.type_url.clone(), resource.name.clone());
                    (name, (Digest::of(&resource.body), resource))
                };
                self.shelf(scope).configuration = resources.into_iter().map(named).collect();
            }
            Change::Convict(scope, verdict) => self.shelf(scope).convict(verdict),
            Change::Acquit(scope, content) => {
                self.shelf(scope).verdicts.remove(&content);
            }
            Change::ForgetGateway(gateway) => self.shelves.retain(|scope, _| scope.gateway != gateway),
        }
    }

    /// Checks the limits that a batch could exceed, before anything is changed.
    fn limits(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut scopes: BTreeSet<&Scope> = self.shelves.keys().collect();
        let mut objects: BTreeMap<&Scope, BTreeSet<&ObjectKey>> = BTreeMap::new();
        for change in batch.changes() {
            match change {
                Change::Promote(scope, object) => {
                    scopes.insert(scope);
                    objects.entry(scope).or_default().insert(&object.key);
                }
                Change::Acknowledge(scope, _) | Change::Convict(scope, _) => {
                    scopes.insert(scope);
                }
                Change::Forget(_) | Change::Acquit(..) | Change::ForgetGateway(_) => {}
            }
        }
        count("scopes", scopes.len(), SCOPES_MAX)?;
        objects.into_iter().try_for_each(|(scope, added)| {
            let shelf = self.shelves.get(scope);
            let known = |key: &&ObjectKey| shelf.is_some_and(|shelf| shelf.versions.contains_key(*key));
            let new = added.iter().filter(|key| !known(key)).count();
            count("objects of one scope", shelf.map_or(0, |shelf| shelf.versions.len()) + new, OBJECTS_MAX)
        })
    }
}

impl LastValidStore for MemoryStore {
    fn commit(&mut self, batch: Batch) -> Result<(), StoreError> {
        batch.check()?;
        self.limits(&batch)?;
        batch.into_changes().into_iter().for_each(|change| self.apply(change));
        self.shelves.retain(|_, shelf| !shelf.is_empty());
        self.generation += 1;
        Ok(())
    }

    fn scopes(&self) -> Result<Vec<Scope>, StoreError> {
        Ok(self.shelves.keys().cloned().collect())
    }

    fn versions(&self, scope: &Scope, key: &ObjectKey) -> Result<Vec<StoredObject>, StoreError> {
        let versions = self.shelves.get(scope).and_then(|shelf| shelf.versions.get(key));
        let sound = |(digest, object): &(Digest, StoredObject)| match *digest == Digest::of(&object.payload) {
            true => Ok(object.clone()),
            false => Err(StoreError::Damaged { name: object.key.to_string() }),
        };
        versions.into_iter().flatten().map(sound).collect()
    }

    fn objects(&self, scope: &Scope) -> Result<Vec<ObjectKey>, StoreError> {
        Ok(self.shelves.get(scope).into_iter().flat_map(|shelf| shelf.versions.keys().cloned()).collect())
    }

    fn configuration(&self, scope: &Scope) -> Result<Vec<StoredResource>, StoreError> {
        let sound = |(digest, resource): &(Digest, StoredResource)| match *digest == Digest::of(&resource.body) {
            true => Ok(resource.clone()),
            false => Err(StoreError::Damaged { name: resource.name.to_string() }),
        };
        self.shelves.get(scope).into_iter().flat_map(|shelf| shelf.configuration.values()).map(sound).collect()
    }

    fn verdicts(&self, scope: &Scope) -> Result<Vec<StoredVerdict>, StoreError> {
        let shelf = self.shelves.get(scope);
        let mut verdicts: Vec<_> = shelf.into_iter().flat_map(|shelf| shelf.verdicts.values().cloned()).collect();
        verdicts.sort_by_key(|verdict| (verdict.since, verdict.content));
        Ok(verdicts)
    }

    fn statistics(&self) -> Statistics {
        let mut statistics =
            Statistics { generation: self.generation, scopes: self.shelves.len(), ..Statistics::default() };
        for shelf in self.shelves.values() {
            statistics.objects += shelf.versions.len();
            statistics.versions += shelf.versions.values().map(Vec::len).sum::<usize>();
            statistics.resources += shelf.configuration.len();
            statistics.verdicts += shelf.verdicts.len();
        }
        statistics.memory_only = statistics.versions + statistics.resources;
        statistics
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
