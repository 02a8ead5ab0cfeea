//! Changes of a scope that are to be stored: verdicts first, all others later.

use holdfast_store::{Batch, Change, Scope, StoredResource};
use holdfast_xds::ResourceType;

use crate::scope::FallbackScope;

/// Limit of origins that are stored with a resource; the running Holdfast reports all of them.
pub(crate) const STORED_ORIGINS_MAX: usize = 64;

/// The changes of a scope that are to be stored.
#[derive(Debug, Default)]
pub(crate) struct ScopeRecords {
    /// Changes that are to be stored soon.
    changes: Batch,
    /// Changes that are to be stored before anything that depends on them is published.
    verdicts: Batch,
    /// Whether an Envoy acknowledged a change of the configuration.
    pub(crate) configuration_changed: bool,
}

impl FallbackScope {
    /// Returns the key of this scope in the store.
    pub fn stored_scope(&self) -> Scope {
        self.id.stored()
    }

    /// Records a change that is to be stored.
    pub fn record(&mut self, change: Change) {
        match change {
            Change::Convict(..) => self.records.verdicts.push(change),
            _ => self.records.changes.push(change),
        }
    }

    /// Returns the verdicts to be stored since the last call.
    pub fn take_convictions(&mut self) -> Batch {
        std::mem::take(&mut self.records.verdicts)
    }

    /// Returns the other changes to be stored since the last call; with the whole configuration, if an Envoy
    /// acknowledged a change of it.
    pub fn take_records(&mut self) -> Batch {
        let mut records = std::mem::take(&mut self.records.changes);
        if std::mem::take(&mut self.records.configuration_changed) && !self.id.build.is_empty() {
            let snapshot = self.hold.acknowledged_snapshot();
            let resources = ResourceType::ALL.into_iter().flat_map(|kind| {
                snapshot.of(kind).values().map(move |resource| StoredResource {
                    type_url: kind.url().into(),
                    name: resource.name.clone(),
                    version: *resource.version.as_bytes(),
                    // Values of Secrets are copied into routes, clusters and listeners, and credentials are written
                    // into objects.
                    sensitive: resource.is_sensitive(kind),
                    origins: resource.origins.iter().take(STORED_ORIGINS_MAX).cloned().collect(),
                    body: resource.body.clone(),
                })
            });
            records.push(Change::Acknowledge(self.stored_scope(), resources.collect()));
        }
        records
    }

    /// Records the acknowledgement of a resource other than a route configuration.
    pub(crate) fn note_acknowledged(&mut self) {
        self.records.configuration_changed = true;
    }
}
