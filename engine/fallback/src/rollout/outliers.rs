//! Outliers: Envoys that refuse content that others of their build accept. The problem is local to the Envoy; no object
//! is convicted for it.

use std::sync::Arc;

use holdfast_xds::{ResourceType, Version};

use crate::scope::FallbackScope;

impl FallbackScope {
    /// Records that an Envoy refused content that others of its build accepted. It keeps its configuration.
    pub(crate) fn note_outlier(
        &mut self,
        node: &Arc<str>,
        slot: (ResourceType, Arc<str>),
        version: Version,
        message: &str,
    ) {
        self.members.keeps(node, slot, version, message, &self.configurations.previous);
    }

    /// Records that an Envoy accepted a resource, if it is an outlier.
    pub(crate) fn came_back(&mut self, node: &str, kind: ResourceType, name: &Arc<str>, version: Version) {
        self.members.came_back(node, (kind, name), version, self.configurations.everyone.as_ref());
    }
}
