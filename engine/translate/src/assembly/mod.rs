//! Assembly: the resources of each fleet, from the plans of all APIs.

pub(crate) mod chains;
pub(crate) mod endpoints;
pub mod fleet;
pub(crate) mod lost_matches;
mod placeholders;
pub(crate) mod ports;
pub(crate) mod routes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use holdfast_api::fault::Fault;
use holdfast_envoy::encode;
use holdfast_envoy::model::ServicePort;
use holdfast_graph::ObjectKey;
use holdfast_xds::{Resource, ResourceType, Snapshot};

use crate::assembly::fleet::{Fleet, FleetId};

/// The fleets, and the resources that they share.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    pub(crate) fleets: BTreeMap<FleetId, Fleet>,
    /// Fleets to finish.
    pub(crate) touched: BTreeSet<FleetId>,
    pub(crate) endpoints: HashMap<ServicePort, Arc<Resource>>,
    pub(crate) endpoint_faults: BTreeMap<ServicePort, Vec<Fault>>,
    /// Ports of Services with endpoints that are kept for a fleet although its configuration no longer uses them.
    pub(crate) kept: BTreeMap<FleetId, BTreeSet<ServicePort>>,
    /// Gateways for which kept endpoints changed.
    kept_changed: BTreeSet<ObjectKey>,
    /// Ports of Services that are used and have no endpoint.
    pub(crate) empty_services: BTreeSet<ServicePort>,
    pub(crate) secrets: HashMap<ObjectKey, Arc<Resource>>,
}

impl Assembly {
    /// Finishes the touched fleets and returns those with new snapshots.
    pub(crate) fn finish(&mut self) -> Vec<(FleetId, Snapshot)> {
        let mut changed = Vec::new();
        for key in std::mem::take(&mut self.touched) {
            let Some(fleet) = self.fleets.get_mut(&key) else { continue };
            fleet.finish(&self.endpoints, &self.secrets);
            if fleet.take_changed() {
                changed.push((key, fleet.snapshot().clone()));
            }
        }
        changed
    }

    /// Takes the Gateways for which kept endpoints changed.
    pub(crate) fn take_kept_changes(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.kept_changed)
    }

    /// Returns the fleets of a Gateway.
    pub(crate) fn fleets_of(&self, gateway: &ObjectKey) -> Vec<FleetId> {
        let from = self.fleets.range(FleetId::main(gateway)..);
        from.map(|(id, _)| id).take_while(|id| id.gateway == *gateway).cloned().collect()
    }

    /// Returns the certificates that the listeners of a Gateway use, or present to backends, in any of its fleets.
    pub(crate) fn certificates_of(&self, gateway: &ObjectKey) -> BTreeSet<ObjectKey> {
        let fleets = self.fleets_of(gateway);
        let fleets = fleets.iter().filter_map(|id| self.fleets.get(id));
        fleets.flat_map(Fleet::certificates).collect()
    }

    /// Sets the endpoints of a Service's port in all fleets that use them.
    pub(crate) fn set_endpoints(&mut self, service: &ServicePort, resource: Arc<Resource>, faults: Vec<Fault>) {
        if faults.is_empty() {
            self.endpoint_faults.remove(service);
        } else {
            self.endpoint_faults.insert(service.clone(), faults);
        }
        for (key, fleet) in self.fleets.iter_mut().filter(|(_, fleet)| fleet.uses(service)) {
            fleet.put(ResourceType::Endpoints, resource.clone());
            self.touched.insert(key.clone());
        }
        self.note_whether_empty(service, &resource);
        let before = self.endpoints.insert(service.clone(), resource.clone());
        if before.is_some_and(|before| before.version != resource.version) {
            let gateways: Vec<_> = self.gateways_keeping(service).cloned().collect();
            self.kept_changed.extend(gateways);
        }
    }

    /// Sets a Secret in all fleets that use it.
    pub(crate) fn set_secret(&mut self, key: &ObjectKey, resource: Option<Arc<Resource>>) {
        match resource {
            Some(resource) => self.secrets.insert(key.clone(), resource),
            None => self.secrets.remove(key),
        };
        let users = self.fleets.iter().filter(|(_, fleet)| fleet.uses_certificate(key));
        self.touched.extend(users.map(|(id, _)| id.clone()));
    }

    /// Removes the endpoints of a Service's port if no fleet uses them. Returns whether they were removed.
    pub(crate) fn release(&mut self, service: &ServicePort) -> bool {
        let is_used =
            self.fleets.values().any(|fleet| fleet.uses(service)) || self.gateways_keeping(service).next().is_some();
        if !is_used {
            self.endpoints.remove(service);
            self.empty_services.remove(service);
            self.endpoint_faults.remove(service);
        }
        !is_used
    }

    /// Records whether a Service's port has any endpoint.
    fn note_whether_empty(&mut self, service: &ServicePort, resource: &Resource) {
        if resource.body == encode::endpoints::encode(service, &BTreeSet::new()) {
            self.empty_services.insert(service.clone());
        } else {
            self.empty_services.remove(service);
        }
    }

    /// Returns the Gateways for which the endpoints of a Service's port are kept.
    fn gateways_keeping(&self, service: &ServicePort) -> impl Iterator<Item = &ObjectKey> {
        self.kept.iter().filter(|(_, kept)| kept.contains(service)).map(|(id, _)| &id.gateway)
    }
}
