//! State of the store without payloads, and the application of changes.
//!
//! Nothing here accesses the disk: a commit makes a new state from the old one, writes the difference, and only then
//! replaces the old state.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_graph::ObjectKey;

use super::form::{ContentPlace, ResourceEntry, StoredContent, VersionEntry, Versions};
use super::keys::Name;
use super::seal::Sealer;
use super::section::{SectionEntry, StoreSection};
use crate::batch::{Change, count};
use crate::error::StoreError;
use crate::record::{
    Digest, OBJECTS_MAX, SCOPES_MAX, Scope, Statistics, StoredObject, StoredResource, StoredVerdict, VERDICTS_MAX,
    VERSIONS_KEPT,
};

/// The stored data of a scope.
#[derive(Clone, Default)]
pub(super) struct ScopeSections {
    pub(super) objects: StoreSection<Versions>,
    pub(super) resources: StoreSection<ResourceEntry>,
    pub(super) verdicts: StoreSection<Arc<StoredVerdict>>,
}

impl ScopeSections {
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.resources.is_empty() && self.verdicts.is_empty()
    }

    /// Returns whether the scope differs from what is written: after a change, and after damage was found.
    pub(super) fn is_dirty(&self) -> bool {
        self.objects.dirty || self.resources.dirty || self.verdicts.dirty
    }
}

/// The stored data.
#[derive(Clone, Default)]
pub(super) struct SledState {
    pub(super) generation: u64,
    pub(super) scopes: BTreeMap<Scope, Arc<ScopeSections>>,
}

/// Payloads that may have to be written.
#[derive(Default)]
pub(super) struct Fresh {
    pub(super) payloads: HashMap<Name, Bytes>,
}

/// Applies changes.
pub(super) struct StateChanges<'a> {
    pub(super) state: SledState,
    pub(super) fresh: Fresh,
    pub(super) sealer: Option<&'a Sealer>,
}

impl StateChanges<'_> {
    /// Applies one change.
    pub(super) fn apply(&mut self, change: Change) -> Result<(), StoreError> {
        match change {
            Change::Promote(scope, object) => return self.promote(scope, object),
            Change::Forget(key) => self.forget(&key),
            Change::Acknowledge(scope, resources) => return self.acknowledge(&scope, resources),
            Change::Convict(scope, verdict) => return self.convict(&scope, verdict),
            Change::Acquit(scope, content) => {
                if self.state.scopes.get(&scope).is_some_and(|shelf| shelf.verdicts.get(&content).is_some()) {
                    self.shelf(&scope)?.verdicts.remove(&content);
                }
            }
            Change::ForgetGateway(gateway) => self.state.scopes.retain(|scope, _| scope.gateway != gateway),
        }
        Ok(())
    }

    /// Removes empty scopes.
    pub(super) fn tidy(&mut self) {
        self.state.scopes.retain(|_, shelf| !shelf.is_empty());
    }

    fn shelf(&mut self, scope: &Scope) -> Result<&mut ScopeSections, StoreError> {
        if !self.state.scopes.contains_key(scope) {
            count("scopes", self.state.scopes.len() + 1, SCOPES_MAX)?;
        }
        Ok(Arc::make_mut(self.state.scopes.entry(scope.clone()).or_default()))
    }

    fn content(&self, payload: &Bytes, sensitive: bool) -> StoredContent {
        let bytes = payload.len() as u64;
        let (digest, place) = match (sensitive, self.sealer) {
            (false, _) => (Digest::of(payload), ContentPlace::Disk),
            (true, Some(sealer)) => (sealer.digest(payload), ContentPlace::Disk),
            (true, None) => (Digest::of(payload), ContentPlace::Memory(payload.clone())),
        };
        StoredContent { digest, bytes, sensitive, place }
    }

    fn remember(&mut self, name: Name, content: &StoredContent, payload: Bytes) {
        if content.on_disk() {
            self.fresh.payloads.insert(name, payload);
        }
    }

    fn promote(&mut self, scope: Scope, object: StoredObject) -> Result<(), StoreError> {
        let StoredObject { key, uid, generation, since, sensitive, payload } = object;
        let content = self.content(&payload, sensitive);
        let known = self.state.scopes.get(&scope).and_then(|shelf| shelf.objects.get(&key));
        let newest = known.and_then(|versions| versions.first());
        let same =
            |known: &VersionEntry| known.content == content && known.uid == uid && known.generation == generation;
        if newest.is_some_and(same) {
            return Ok(());
        }
        let mut versions = known.cloned().unwrap_or_default();
        let new = known.is_none();
        // An older version that is proven good again becomes the newest.
        versions.retain(|known| known.uid == uid && known.content.digest != content.digest);
        versions.insert(0, VersionEntry { uid, generation, since, content: content.clone() });
        versions.truncate(VERSIONS_KEPT);
        let shelf = self.shelf(&scope)?;
        if new {
            count("objects of one scope", shelf.objects.len() + 1, OBJECTS_MAX)?;
        }
        let name = Versions::name(&scope, &key, &content);
        shelf.objects.insert(key, versions);
        self.remember(name, &content, payload);
        Ok(())
    }

    fn forget(&mut self, key: &ObjectKey) {
        for shelf in self.state.scopes.values_mut() {
            if shelf.objects.get(key).is_some() {
                Arc::make_mut(shelf).objects.remove(key);
            }
        }
    }

    fn acknowledge(&mut self, scope: &Scope, resources: Vec<StoredResource>) -> Result<(), StoreError> {
        let named = resources.into_iter().map(|it| ((it.type_url.clone(), it.name.clone()), it));
        let mut named: BTreeMap<_, _> = named.collect();
        let known = self.state.scopes.get(scope).cloned().unwrap_or_default();
        let gone: Vec<_> =
            known.resources.iter().map(|(key, _)| key).filter(|key| !named.contains_key(*key)).cloned().collect();
        let mut changed = Vec::new();
        while let Some((key, resource)) = named.pop_first() {
            if known.resources.get(&key).is_some_and(|known| known.is_of(&resource)) {
                continue;
            }
            let content = self.content(&resource.body, resource.sensitive);
            let entry = ResourceEntry { version: resource.version, origins: resource.origins.into(), content };
            if known.resources.get(&key) != Some(&entry) {
                self.remember(ResourceEntry::name(scope, &key, &entry.content), &entry.content, resource.body);
                changed.push((key, entry));
            }
        }
        if gone.is_empty() && changed.is_empty() {
            return Ok(());
        }
        let shelf = self.shelf(scope)?;
        gone.iter().for_each(|key| shelf.resources.remove(key));
        changed.into_iter().for_each(|(key, entry)| shelf.resources.insert(key, entry));
        Ok(())
    }

    fn convict(&mut self, scope: &Scope, verdict: StoredVerdict) -> Result<(), StoreError> {
        let known = self.state.scopes.get(scope).and_then(|shelf| shelf.verdicts.get(&verdict.content));
        if known.is_some_and(|known| **known == verdict) {
            return Ok(());
        }
        let shelf = self.shelf(scope)?;
        shelf.verdicts.insert(verdict.content, Arc::new(verdict));
        while shelf.verdicts.len() > VERDICTS_MAX {
            let oldest = shelf.verdicts.iter().map(|(content, verdict)| (verdict.since, *content)).min();
            let Some((_, content)) = oldest else { break };
            shelf.verdicts.remove(&content);
        }
        Ok(())
    }
}

impl SledState {
    /// Adds the data that another state has in memory only, where nothing newer is known.
    pub(super) fn take_over(&mut self, other: &SledState) {
        for (scope, shelf) in &other.scopes {
            let objects = shelf.objects.iter().filter(|(_, versions)| versions.iter().any(|it| !it.content.on_disk()));
            for (key, versions) in objects {
                let own = Arc::make_mut(self.scopes.entry(scope.clone()).or_default());
                let mut merged: Versions = versions.iter().filter(|it| !it.content.on_disk()).cloned().collect();
                merged.extend(own.objects.get(key).into_iter().flatten().cloned());
                merged.truncate(VERSIONS_KEPT);
                own.objects.insert(key.clone(), merged);
            }
            let resources = shelf.resources.iter().filter(|(_, resource)| !resource.content.on_disk());
            for (key, resource) in resources {
                let own = Arc::make_mut(self.scopes.entry(scope.clone()).or_default());
                own.resources.insert(key.clone(), resource.clone());
            }
        }
    }

    /// Returns the statistics.
    pub(super) fn statistics(&self) -> Statistics {
        let scopes = self.scopes.len();
        let mut statistics = Statistics { generation: self.generation, scopes, ..Statistics::default() };
        for shelf in self.scopes.values() {
            let (objects, resources) = (shelf.objects.counts(), shelf.resources.counts());
            statistics.verdicts += shelf.verdicts.len();
            statistics.objects += objects.usable;
            statistics.versions += objects.readable;
            statistics.resources += resources.usable;
            statistics.memory_only += objects.memory_only + resources.memory_only;
            statistics.unreadable += objects.unreadable + resources.unreadable;
        }
        statistics
    }
}
