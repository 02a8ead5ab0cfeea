//! Rollout of a configuration to the Envoys of a scope: unproven content goes to the probe first; without a probe, it
//! goes to one Envoy, then to all others.
//!
//! Endpoints are not part of the rollout: they go to all Envoys at once. Of clusters that differ only in their names,
//! one is tried.

pub(crate) mod answerable;
pub mod configurations;
pub(crate) mod served_endpoints;
pub mod stage;
pub(crate) mod unread;
pub(crate) mod untried;

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_xds::{AgainByName, Resource, ResourceType, Snapshot, Version};
use imbl::ordmap::DiffItem;

pub use self::stage::Stage;
use crate::context::step_inputs::StepInputs;

/// Resource types that are tried before all Envoys receive them.
pub(crate) const TRIED: [ResourceType; 4] =
    [ResourceType::Cluster, ResourceType::Secret, ResourceType::Listener, ResourceType::Route];
/// The number of losses of Envoys on a content after which the content counts as refused.
pub(crate) const STRIKES_MAX: u32 = 2;

/// Resources with their versions.
pub type Waiting = BTreeMap<(ResourceType, Arc<str>), Version>;

/// The configurations for the Envoys of a scope.
pub struct Offered {
    /// The configuration for all Envoys.
    pub everyone: Snapshot,
    /// Whether this configuration is not to be sent yet.
    pub waits: bool,
    /// Configurations for single Envoys, by node.
    pub nodes: BTreeMap<Arc<str>, Snapshot>,
    /// Resources that single Envoys are sent again, by node.
    pub again: BTreeMap<Arc<str>, AgainByName>,
}

/// Returns a number for a trial.
pub fn next(inputs: &mut StepInputs<'_>) -> u64 {
    *inputs.next_trial += 1;
    *inputs.next_trial
}

/// Returns the resources of a type that are new or changed in the later of two snapshots.
pub(crate) fn changes<'a>(
    before: &'a Snapshot,
    after: &'a Snapshot,
    kind: ResourceType,
) -> impl Iterator<Item = Arc<Resource>> + 'a {
    before.of(kind).diff(after.of(kind)).filter_map(|item| match item {
        DiffItem::Add(_, resource) => Some(resource.clone()),
        DiffItem::Update { old: (_, old), new: (_, new) } => (old.version != new.version).then(|| new.clone()),
        DiffItem::Remove(..) => None,
    })
}
