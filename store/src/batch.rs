//! Batches: changes that are committed together.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use crate::LastValidStore;
use crate::error::StoreError;
use crate::record::{
    LIST_MAX, PAYLOAD_BYTES_MAX, RESOURCES_MAX, Scope, StoredObject, StoredResource, StoredVerdict, TEXT_BYTES_MAX,
};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A version of an object was proven good in a scope. Promoting the newest version again changes nothing.
    Promote(Scope, StoredObject),
    /// An object was deleted: its versions are removed, in every scope. Refused contents stay refused.
    Forget(ObjectKey),
    /// The whole configuration that was acknowledged in a scope. Of two resources with one type and name, the last one
    /// counts. The cost depends on the resources that differ from before.
    Acknowledge(Scope, Vec<StoredResource>),
    /// A content was refused in a scope; of two verdicts about one content, the last one counts.
    Convict(Scope, StoredVerdict),
    /// A content is no longer refused in a scope.
    Acquit(Scope, [u8; 16]),
    /// A Gateway was deleted: its scopes are removed with everything in them.
    ForgetGateway(Arc<str>),
}

/// Changes, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    changes: Vec<Change>,
}

impl Batch {
    /// Adds a change.
    #[must_use]
    pub fn with(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// Adds a change.
    pub fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Adds the changes of another batch after the changes of this one.
    pub fn append(&mut self, other: Batch) {
        self.changes.extend(other.changes);
    }

    /// Returns whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns the changes, in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Returns the changes, in order.
    pub fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// Returns the changes that copy another store into an empty one.
    ///
    /// # Errors
    /// Fails where `store` cannot be read.
    pub fn of_everything(store: &impl LastValidStore) -> Result<Self, StoreError> {
        let mut batch = Self::default();
        for scope in store.scopes()? {
            for key in store.objects(&scope)? {
                // The older of two versions was proven first.
                for version in store.versions(&scope, &key)?.into_iter().rev() {
                    batch.push(Change::Promote(scope.clone(), version));
                }
            }
            let configuration = store.configuration(&scope)?;
            if !configuration.is_empty() {
                batch.push(Change::Acknowledge(scope.clone(), configuration));
            }
            let verdicts = store.verdicts(&scope)?.into_iter();
            batch.changes.extend(verdicts.map(|verdict| Change::Convict(scope.clone(), verdict)));
        }
        Ok(batch)
    }

    /// Returns the changes that turn a store with the content of `before` into one with the content of `after`.
    ///
    /// # Errors
    /// Fails where one of the stores cannot be read.
    pub fn between(before: &impl LastValidStore, after: &impl LastValidStore) -> Result<Self, StoreError> {
        let mut batch = Self::default();
        let scopes = after.scopes()?;
        for scope in before.scopes()? {
            if !scopes.iter().any(|known| known.gateway == scope.gateway) {
                batch.push(Change::ForgetGateway(scope.gateway));
                continue;
            }
            let objects = after.objects(&scope)?;
            let gone = before.objects(&scope)?.into_iter().filter(|key| objects.binary_search(key).is_err());
            batch.changes.extend(gone.map(Change::Forget));
            let verdicts: BTreeSet<_> = after.verdicts(&scope)?.into_iter().map(|verdict| verdict.content).collect();
            let gone = before.verdicts(&scope)?.into_iter().filter(|verdict| !verdicts.contains(&verdict.content));
            batch.changes.extend(gone.map(|verdict| Change::Acquit(scope.clone(), verdict.content)));
            if after.configuration(&scope)?.is_empty() {
                batch.push(Change::Acknowledge(scope, Vec::new()));
            }
        }
        batch.append(Self::of_everything(after)?);
        Ok(batch)
    }

    /// Checks every record against the limits.
    ///
    /// # Errors
    /// Fails with the first record that is too large.
    pub fn check(&self) -> Result<(), StoreError> {
        self.changes.iter().try_for_each(check)
    }
}

fn check(change: &Change) -> Result<(), StoreError> {
    match change {
        Change::Promote(scope, object) => {
            texts(&object.key, [&scope.gateway, &scope.build, &object.uid])?;
            size(|| object.key.to_string(), object.payload.len(), PAYLOAD_BYTES_MAX)
        }
        Change::Acknowledge(scope, resources) => {
            count("resources of one scope", resources.len(), RESOURCES_MAX)?;
            for resource in resources {
                for text in [&scope.gateway, &scope.build, &resource.type_url, &resource.name] {
                    size(|| resource.name.to_string(), text.len(), TEXT_BYTES_MAX)?;
                }
                size(|| resource.name.to_string(), resource.body.len(), PAYLOAD_BYTES_MAX)?;
                count("origins of one resource", resource.origins.len(), LIST_MAX)?;
                resource.origins.iter().try_for_each(|origin| texts(origin, []))?;
            }
            Ok(())
        }
        Change::Convict(scope, verdict) => {
            let StoredVerdict { section, detected_by, field, message, witnesses, .. } = verdict;
            texts(&verdict.key, [&scope.gateway, &scope.build, section, detected_by, field, message])?;
            count("witnesses of one verdict", witnesses.len(), LIST_MAX)
        }
        Change::Forget(_) | Change::Acquit(..) | Change::ForgetGateway(_) => Ok(()),
    }
}

fn texts<const N: usize>(key: &ObjectKey, others: [&Arc<str>; N]) -> Result<(), StoreError> {
    let own = [&key.group, &key.kind, &key.namespace, &key.name];
    own.into_iter().chain(others).try_for_each(|text| size(|| key.to_string(), text.len(), TEXT_BYTES_MAX))
}

fn size(name: impl Fn() -> String, bytes: usize, max: usize) -> Result<(), StoreError> {
    if bytes > max { Err(StoreError::TooLarge { name: name(), bytes, max }) } else { Ok(()) }
}

/// Fails where a number is over its limit.
pub(crate) fn count(what: &'static str, count: usize, max: usize) -> Result<(), StoreError> {
    if count > max { Err(StoreError::TooMany { what, count, max }) } else { Ok(()) }
}
