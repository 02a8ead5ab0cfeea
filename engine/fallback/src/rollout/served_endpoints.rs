//! Endpoints of the configurations that Envoys have: always the current ones, also for Services that only an earlier
//! configuration uses.

use std::collections::BTreeSet;

use holdfast_envoy::encode::names;
use holdfast_envoy::model::ServicePort;
use holdfast_xds::{ResourceType, Snapshot};
use imbl::ordmap::DiffItem;

use super::unread::may_be_others;
use crate::context::step_inputs::StepInputs;

/// Returns the ports of Services that these served configurations use and the wanted configuration does not use.
pub(super) fn unused<'a>(
    served: impl Iterator<Item = &'a Snapshot>,
    wanted: &Snapshot,
    inputs: &StepInputs<'_>,
) -> BTreeSet<ServicePort> {
    let differences =
        served.flat_map(|served| served.of(ResourceType::Endpoints).diff(wanted.of(ResourceType::Endpoints)));
    let unused = differences.filter_map(|item| match item {
        DiffItem::Remove(name, _) => names::service_port(name),
        DiffItem::Add(..) | DiffItem::Update { .. } => None,
    });
    // A Service that was deleted together with its last use serves until the newer configuration is in force.
    unused.filter(|service| inputs.objects.get(&service.key).is_some()).collect()
}

/// Returns the current endpoints of these ports.
pub(super) fn endpoints_of(unused: &BTreeSet<ServicePort>, inputs: &StepInputs<'_>) -> Snapshot {
    let mut kept = Snapshot::default();
    let known = unused.iter().filter_map(|service| inputs.translator.endpoints_of(service));
    for resource in known.filter(|resource| !may_be_others(resource, inputs)) {
        kept.insert(ResourceType::Endpoints, resource.clone());
    }
    kept
}

/// Returns a configuration with its current endpoints and all wanted endpoints: a configuration from the store of an
/// earlier run contains no endpoints.
pub(super) fn with_all_endpoints(snapshot: &Snapshot, wanted: &Snapshot, kept: &Snapshot) -> Snapshot {
    let mut current = with_current_endpoints(snapshot, wanted, kept);
    for item in snapshot.of(ResourceType::Endpoints).diff(wanted.of(ResourceType::Endpoints)) {
        if let DiffItem::Add(_, resource) = item {
            current.insert(ResourceType::Endpoints, resource.clone());
        }
    }
    current
}

/// Returns a configuration with its current endpoints: endpoints are never held back.
pub(super) fn with_current_endpoints(snapshot: &Snapshot, wanted: &Snapshot, kept: &Snapshot) -> Snapshot {
    let mut current = snapshot.clone();
    for item in snapshot.of(ResourceType::Endpoints).diff(wanted.of(ResourceType::Endpoints)) {
        let newest = match item {
            DiffItem::Update { new: (_, resource), .. } => Some(resource),
            DiffItem::Remove(name, _) => kept.get(ResourceType::Endpoints, name),
            DiffItem::Add(..) => None,
        };
        if let Some(resource) = newest {
            current.insert(ResourceType::Endpoints, resource.clone());
        }
    }
    current
}
