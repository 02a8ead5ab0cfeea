//! What is to be stored of a line: verdicts first, everything else later.

use holdfast_store::{Batch, Change, Scope, StoredResource};
use holdfast_xds::ResourceType;

use super::line::Line;

/// Origins of a resource that are stored with it: for people, who can ask the running Holdfast for all of them.
pub(crate) const STORED_ORIGINS_MAX: usize = 64;

impl Line {
    /// For whom what it learns holds.
    pub(crate) fn scope(&self) -> Scope {
        Scope { gateway: self.name.clone(), build: self.build.clone() }
    }

    /// Something is to be stored.
    pub(crate) fn record(&mut self, change: Change) {
        match change {
            Change::Convict(..) => self.convictions.push(change),
            _ => self.records.push(change),
        }
    }

    /// Verdicts that are to be stored since this was last asked.
    pub(crate) fn take_convictions(&mut self) -> Batch {
        std::mem::take(&mut self.convictions)
    }

    /// What else is to be stored since this was last asked; the whole configuration where it was acknowledged anew.
    pub(crate) fn take_records(&mut self) -> Batch {
        let mut records = std::mem::take(&mut self.records);
        if std::mem::take(&mut self.configuration_changed) && !self.build.is_empty() {
            let snapshot = self.hold.acknowledged_snapshot();
            let resources = ResourceType::ALL.into_iter().flat_map(|kind| {
                snapshot.of(kind).values().map(move |resource| StoredResource {
                    type_url: kind.url().into(),
                    name: resource.name.clone(),
                    version: *resource.version.as_bytes(),
                    // Values of Secrets reach routes, clusters and listeners, and credentials are written into objects.
                    sensitive: resource.is_sensitive(kind),
                    origins: resource.origins.iter().take(STORED_ORIGINS_MAX).cloned().collect(),
                    body: resource.body.clone(),
                })
            });
            records.push(Change::Acknowledge(self.scope(), resources.collect()));
        }
        records
    }

    /// Something else than a route configuration was acknowledged.
    pub(crate) fn note_acknowledged(&mut self) {
        self.configuration_changed = true;
    }
}
