//! Endpoints other than the desired ones: endpoints that Envoys have and the configuration of their fleet no longer
//! uses. They stay current until the Envoys have newer configuration. Also Services without endpoints.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_envoy::encode::endpoints;
use holdfast_envoy::model::ServicePort;
use holdfast_graph::ObjectKey;
use holdfast_xds::Resource;

use super::Translator;
use super::fleet::FleetId;

impl Translator {
    /// Keeps the endpoints of these Services current for a fleet, in addition to those that its configuration uses.
    /// Returns whether any of them must be translated first.
    pub fn keep_endpoints(&mut self, fleet: &FleetId, services: BTreeSet<ServicePort>) -> bool {
        let before = match services.is_empty() {
            true => self.kept.remove(fleet),
            false => self.kept.insert(fleet.clone(), services.clone()),
        };
        let before = before.unwrap_or_default();
        self.endpoints_wanted(&before, &services);
        services.iter().any(|service| !self.endpoints.contains_key(service))
    }

    /// Returns the endpoints of a Service's port if any fleet needs them.
    pub fn endpoints_of(&self, service: &ServicePort) -> Option<&Arc<Resource>> {
        self.endpoints.get(service)
    }

    /// Returns the ports of Services that are used and have no endpoint.
    pub fn without_endpoints(&self) -> &BTreeSet<ServicePort> {
        &self.empty_services
    }

    /// Returns the EndpointSlices of a Service.
    pub fn slices(&self, service: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.indexes.slices_of(service)
    }

    /// Records whether a Service's port has any endpoint.
    pub(super) fn note_whether_empty(&mut self, service: &ServicePort, resource: &Resource) {
        if resource.body == endpoints::encode(service, &BTreeSet::new()) {
            self.empty_services.insert(service.clone());
        } else {
            self.empty_services.remove(service);
        }
    }

    /// Returns the Gateways for which the endpoints of a Service's port are kept.
    pub(super) fn gateways_keeping(&self, service: &ServicePort) -> impl Iterator<Item = &ObjectKey> {
        self.kept.iter().filter(|(_, kept)| kept.contains(service)).map(|(id, _)| &id.gateway)
    }
}
