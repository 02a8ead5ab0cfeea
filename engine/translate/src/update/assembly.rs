//! Endpoints and certificates that the plans need, and endpoints that Envoys use although the configuration of their
//! fleet no longer does. They stay current until the Envoys have newer configuration.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::settings::Settings;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_envoy::model::ServicePort;
use holdfast_graph::ObjectKey;
use holdfast_xds::Resource;

use super::{Translator, Unit};
use crate::assembly::endpoints;
use crate::assembly::fleet::FleetId;
use crate::outcome::route::RoutePlan;
use crate::reader::Reader;

impl Translator {
    /// Reads the endpoints of a Service's port.
    pub(super) fn redo_endpoints(&mut self, unit: &Unit, service: &ServicePort, objects: &ObjectSnapshot) {
        let read = |settings: &Settings, reader: &mut Reader<'_>| endpoints::endpoints(service, settings, reader);
        let over = self.stand_in(&service.key, objects);
        let (read, _) = self.read_over(unit, over.as_deref(), objects, read);
        // Translation failed: the served endpoints stay.
        let Some((resource, faults)) = read else { return };
        self.assembly.set_endpoints(service, Arc::new(resource), faults);
    }

    /// Reads a certificate.
    pub(super) fn redo_secret(&mut self, unit: &Unit, key: &ObjectKey, objects: &ObjectSnapshot) {
        let (resource, _) = self.read(unit, objects, |_, reader| endpoints::secret(key, reader));
        self.assembly.set_secret(key, resource.flatten().map(Arc::new));
    }

    pub(crate) fn certificates_changed(&mut self, before: &BTreeSet<ObjectKey>, after: &BTreeSet<ObjectKey>) {
        let missing =
            after.iter().filter(|secret| !self.assembly.secrets.contains_key(secret)).cloned().map(Unit::Secret);
        self.units.extend(missing);
        for secret in before.difference(after) {
            if !self.assembly.fleets.values().any(|fleet| fleet.uses_certificate(secret)) {
                self.assembly.secrets.remove(secret);
                self.units.cancel(&Unit::Secret(secret.clone()));
            }
        }
    }

    /// Looks up the endpoints and certificates that a new plan of a route adds, and removes those that are no longer
    /// needed.
    pub(crate) fn services_changed(&mut self, old: Option<&RoutePlan>, new: Option<&RoutePlan>) {
        let services = |plan: Option<&RoutePlan>| -> BTreeSet<ServicePort> {
            // A route without a place needs no endpoints.
            let plan = plan.filter(|plan| !plan.places.is_empty());
            plan.map(RoutePlan::services).unwrap_or_default()
        };
        self.endpoints_wanted(&services(old), &services(new));
        let shown = |plan: Option<&RoutePlan>| {
            plan.filter(|plan| !plan.places.is_empty()).map(RoutePlan::shown).unwrap_or_default()
        };
        self.certificates_shown(&shown(old), &shown(new));
    }

    /// Looks up endpoints that are newly needed, and removes those that are no longer needed.
    pub(crate) fn endpoints_wanted(&mut self, before: &BTreeSet<ServicePort>, after: &BTreeSet<ServicePort>) {
        let unknown = after.iter().filter(|service| !self.assembly.endpoints.contains_key(service)).cloned();
        self.units.extend(unknown.map(Unit::Endpoints));
        for service in before.difference(after) {
            self.release_service(service);
        }
    }

    /// Looks up client certificates that backends newly require, and removes those that are no longer needed.
    pub(crate) fn certificates_shown(&mut self, before: &BTreeSet<ObjectKey>, after: &BTreeSet<ObjectKey>) {
        if before != after || after.iter().any(|secret| !self.assembly.secrets.contains_key(secret)) {
            self.certificates_changed(before, after);
        }
    }

    /// Removes the endpoints of a Service's port if no fleet uses them.
    pub(crate) fn release_service(&mut self, service: &ServicePort) {
        if self.assembly.release(service) {
            self.units.cancel(&Unit::Endpoints(service.clone()));
        }
    }

    /// Keeps the endpoints of these Services current for a fleet, in addition to those that its configuration uses. The
    /// next translation reads those that are not known yet.
    pub fn keep_endpoints(&mut self, fleet: &FleetId, services: BTreeSet<ServicePort>) {
        let before = match services.is_empty() {
            true => self.assembly.kept.remove(fleet),
            false => self.assembly.kept.insert(fleet.clone(), services.clone()),
        };
        let before = before.unwrap_or_default();
        self.endpoints_wanted(&before, &services);
    }

    /// Returns the endpoints of a Service's port if any fleet needs them.
    pub fn endpoints_of(&self, service: &ServicePort) -> Option<&Arc<Resource>> {
        self.assembly.endpoints.get(service)
    }

    /// Returns the ports of Services that are used and have no endpoint.
    pub fn without_endpoints(&self) -> &BTreeSet<ServicePort> {
        &self.assembly.empty_services
    }

    /// Returns the EndpointSlices of a Service.
    pub fn slices(&self, service: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.indexes.slices_of(service)
    }
}
