//! Changes of a scope that are to be stored: verdicts first, all others later.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_envoy::hold::Hold;
use holdfast_store::{Batch, Change, StoredResource};
use holdfast_xds::ResourceType;

use crate::context::scope_id::ScopeId;

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
    configuration_changed: bool,
}

impl ScopeRecords {
    /// Records a change that is to be stored.
    pub(crate) fn record(&mut self, change: Change) {
        match change {
            Change::Convict(..) => self.verdicts.push(change),
            _ => self.changes.push(change),
        }
    }

    /// Records that an Envoy acknowledged a change of the configuration.
    pub(crate) fn note_acknowledged(&mut self) {
        self.configuration_changed = true;
    }

    /// Returns whether nothing is to be stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.verdicts.is_empty() && !self.configuration_changed
    }

    /// Returns the verdicts to be stored since the last call.
    pub(crate) fn take_verdicts(&mut self) -> Batch {
        std::mem::take(&mut self.verdicts)
    }

    /// Returns the other changes to be stored since the last call; with the whole configuration, if an Envoy
    /// acknowledged a change of it.
    pub(crate) fn take_changes(&mut self, id: &ScopeId, hold: &Hold) -> Batch {
        let mut changes = std::mem::take(&mut self.changes);
        if std::mem::take(&mut self.configuration_changed) && !id.build.is_empty() {
            let urls: BTreeMap<ResourceType, Arc<str>> =
                ResourceType::ALL.into_iter().map(|kind| (kind, kind.url().into())).collect();
            let resources = hold.all_acknowledged().filter_map(|(kind, resource)| {
                Some(StoredResource {
                    type_url: urls.get(&kind)?.clone(),
                    name: resource.name.clone(),
                    version: *resource.version.as_bytes(),
                    // Values of Secrets are copied into routes, clusters and listeners, and credentials are written
                    // into objects.
                    sensitive: resource.is_sensitive(kind),
                    origins: resource.origins.first().iter().take(STORED_ORIGINS_MAX).cloned().collect(),
                    body: resource.body.clone(),
                })
            });
            changes.push(Change::Acknowledge(id.stored(), resources.collect()));
        }
        changes
    }
}
