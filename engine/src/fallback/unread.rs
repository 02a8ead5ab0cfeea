//! Endpoints at a start at which their slices cannot be read: nobody has said that they are gone.
//!
//! The other objects stay by their stored versions; of slices none are stored, only what Envoys acknowledged of them.

use std::sync::Arc;

use holdfast_graph::ObjectKey;
use holdfast_xds::{Resource, ResourceType, Snapshot};

use super::around::Around;
use super::line::Line;

const KIND: &str = "EndpointSlice";

/// May these endpoints be others, since some slices cannot be read?
pub(super) fn may_be_others(resource: &Resource, around: &Around<'_>) -> bool {
    let is_slice = |key: &ObjectKey| *key.kind == *KIND;
    !resource.origins.iter().any(is_slice) && around.unread.iter().any(is_slice)
}

impl Line {
    /// Endpoints of which no slice is known, and some cannot be read, are as they were acknowledged.
    pub(super) fn keep_unread_endpoints(&self, snapshot: &mut Snapshot, around: &Around<'_>) {
        let is_unread = |key: &ObjectKey| *key.kind == *KIND && around.unread.contains(key);
        if !around.unread.iter().any(is_unread) {
            return;
        }
        let is_known = |resource: &Arc<Resource>| resource.origins.iter().any(|key| *key.kind == *KIND);
        let unknown: Vec<Arc<str>> = snapshot
            .of(ResourceType::Endpoints)
            .iter()
            .filter(|(_, resource)| !is_known(resource))
            .map(|(name, _)| name.clone())
            .collect();
        for name in unknown {
            let kept = self.hold.acknowledged(ResourceType::Endpoints, &name);
            if let Some(kept) = kept.filter(|kept| kept.origins.iter().any(is_unread)) {
                snapshot.insert(ResourceType::Endpoints, kept.clone());
            }
        }
    }
}
