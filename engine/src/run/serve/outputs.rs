//! Does what the engine says: hands configurations to the xDS server and Envoys to their keeper.

use std::sync::Arc;

use holdfast_xds::Snapshot;

/// Where actions go.
#[derive(Debug, Default)]
pub struct Outputs {}

impl Outputs {
    /// The Envoys of a Gateway are to have this from now on.
    pub fn publish(&mut self, gateway: &Arc<str>, snapshot: &Snapshot) {
        tracing::debug!(%gateway, resources = snapshot.len(), "published");
    }

    /// The Gateway is gone.
    pub fn withdraw(&mut self, gateway: &Arc<str>) {
        tracing::info!(%gateway, "the Gateway is gone");
    }

    /// The product ends.
    pub async fn end(&mut self) {}
}
