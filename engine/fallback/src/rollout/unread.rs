//! Endpoints at a start at which some EndpointSlices cannot be read: no event has reported their deletion.
//!
//! Other objects are kept in their stored versions. EndpointSlices are not stored; only the endpoints that Envoys
//! acknowledged are.

use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_envoy::hold::Hold;
use holdfast_graph::ObjectKey;
use holdfast_xds::{Resource, ResourceType, Snapshot};

use crate::context::step_inputs::StepInputs;

const KIND: &str = kinds::ENDPOINT_SLICE;

/// Checks whether these endpoints may be outdated, because some EndpointSlices cannot be read.
pub(super) fn may_be_others(resource: &Resource, inputs: &StepInputs<'_>) -> bool {
    let is_slice = |key: &ObjectKey| *key.kind == *KIND;
    !resource.origins.iter().any(is_slice) && inputs.unread.iter().any(is_slice)
}

/// Keeps the acknowledged endpoints of Services without a known EndpointSlice, if some EndpointSlices cannot be
/// read.
pub(crate) fn keep_unread_endpoints(hold: &Hold, snapshot: &mut Snapshot, inputs: &StepInputs<'_>) {
    let is_unread = |key: &ObjectKey| *key.kind == *KIND && inputs.unread.contains(key);
    if !inputs.unread.iter().any(is_unread) {
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
        let kept = hold.acknowledged(ResourceType::Endpoints, &name);
        if let Some(kept) = kept.filter(|kept| kept.origins.iter().any(is_unread)) {
            snapshot.insert(ResourceType::Endpoints, kept.clone());
        }
    }
}
