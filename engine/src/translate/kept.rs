//! Endpoints besides those that are desired: of what Envoys have and the configuration of a fleet no longer uses, which
//! stay current until Envoys have what is newer; and the Services that have none.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_graph::ObjectKey;
use holdfast_xds::Resource;

use super::Translator;
use super::fleet::FleetId;
use crate::encode::endpoints;
use crate::model::ServicePort;

impl Translator {
    /// The endpoints of these Services are looked up for a fleet besides those that its configuration uses. True where
    /// that is to be translated.
    pub(crate) fn keep_endpoints(&mut self, fleet: &FleetId, services: BTreeSet<ServicePort>) -> bool {
        let before = match services.is_empty() {
            true => self.kept.remove(fleet),
            false => self.kept.insert(fleet.clone(), services.clone()),
        };
        let before = before.unwrap_or_default();
        self.endpoints_wanted(&before, &services);
        services.iter().any(|service| !self.endpoints.contains_key(service))
    }

    /// The endpoints of a Service's port, where they are looked up for any fleet.
    pub(crate) fn endpoints_of(&self, service: &ServicePort) -> Option<&Arc<Resource>> {
        self.endpoints.get(service)
    }

    /// The Services' ports that are used and have no endpoint.
    pub(crate) fn without_endpoints(&self) -> &BTreeSet<ServicePort> {
        &self.empty_services
    }

    /// The EndpointSlices of a Service.
    pub(crate) fn slices(&self, service: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.indexes.slices_of(service)
    }

    /// Notes whether a Service's port has any endpoint.
    pub(super) fn note_whether_empty(&mut self, service: &ServicePort, resource: &Resource) {
        if resource.body == endpoints::encode(service, &BTreeSet::new()) {
            self.empty_services.insert(service.clone());
        } else {
            self.empty_services.remove(service);
        }
    }

    /// The Gateways for which the endpoints of a Service's port are kept.
    pub(super) fn keepers(&self, service: &ServicePort) -> impl Iterator<Item = &ObjectKey> {
        self.kept.iter().filter(|(_, kept)| kept.contains(service)).map(|(id, _)| &id.gateway)
    }
}
