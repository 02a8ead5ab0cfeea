//! Reports of translation: faults, statuses and replacements. Computed on request, never on the hot path.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::fault::Fault;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_graph::{Node, ObjectKey};

use super::duplicates::Duplicates;
use super::reach;
use crate::Translator;
use crate::assembly::fleet::FleetId;
use crate::outcome::claims::ListenerId;
use crate::outcome::finding::Finding;
use crate::outcome::gateway::GatewayPlan;
use crate::outcome::listener_set::SetClaim;
use crate::outcome::route::RoutePlan;

impl Translator {
    /// Returns all faults in order, without duplicates.
    pub fn faults(&self) -> Vec<Fault> {
        let routes = self.routes.reported().flat_map(|(_, plan)| &plan.faults);
        let mut faults: Vec<Fault> = routes
            .chain(self.outcomes.faults())
            .chain(self.gateway_api.unserved.values())
            .chain(self.gateway_api.classes.values())
            .chain(self.assembly.endpoint_faults.values().flatten())
            .chain(self.policy.levels.values().flat_map(|levels| &levels.faults))
            .chain(self.backend_policy.plans.values().flat_map(|plan| &plan.faults))
            .cloned()
            .chain(self.httpproxy.orphan_faults())
            .chain(self.duplicate_faults())
            .chain(self.httpproxy.extensions.values().flatten().map(Finding::fault))
            .collect();
        faults.sort_unstable();
        faults.dedup();
        faults
    }

    /// Returns the hosts at which a request reaches each of these parts of route objects in a fleet; `None` for an unknown
    /// fleet.
    pub fn reached_hosts(&self, fleet: &FleetId, parts: &BTreeSet<Node>) -> Option<BTreeMap<Node, BTreeSet<Arc<str>>>> {
        Some(reach::reached_hosts(self.assembly.fleets.get(fleet)?, parts))
    }

    /// Returns those of these parts of route objects that no request reaches in a fleet, each with the objects that get its
    /// requests.
    pub fn overtaken_parts(&self, fleet: &FleetId, parts: &BTreeSet<Node>) -> BTreeMap<Node, BTreeSet<ObjectKey>> {
        // Without any part, no host has to be looked at.
        let fleet = self.assembly.fleets.get(fleet).filter(|_| !parts.is_empty());
        fleet.map(|fleet| reach::overtaken_parts(fleet, parts)).unwrap_or_default()
    }

    /// Returns the findings about an ExtensionService.
    pub fn extension_findings(&self, key: &ObjectKey) -> Option<&[Finding]> {
        self.httpproxy.extensions.get(key).map(Vec::as_slice)
    }

    /// Returns the claim of a ListenerSet.
    pub fn set(&self, key: &ObjectKey) -> Option<&Arc<SetClaim>> {
        self.outcomes.sets.get(key)
    }

    /// Returns the fault of a GatewayClass of this controller.
    pub fn class_fault(&self, key: &ObjectKey) -> Option<&Fault> {
        self.gateway_api.classes.get(key)
    }

    /// Returns the plans of the Gateways of this controller, in order.
    pub fn plans(&self) -> BTreeMap<&ObjectKey, &GatewayPlan> {
        self.outcomes.gateways.iter().map(|(key, plan)| (key, &**plan)).collect()
    }

    /// Returns the plans of the route objects with faults or replaced parts, and of those that one of these fleets is
    /// served in another form, in order.
    pub fn reported_routes(&self, fleets: &BTreeSet<FleetId>) -> BTreeMap<&ObjectKey, &RoutePlan> {
        let varied = self.variants.routes_of(fleets).filter_map(|key| self.routes.get_key_value(key));
        self.routes.reported().chain(varied).map(|(key, plan)| (key, &**plan)).collect()
    }

    /// Returns the routes that one of these fleets is served in another form than the desired one.
    pub fn varied_routes<'a>(&'a self, fleets: &'a BTreeSet<FleetId>) -> impl Iterator<Item = &'a ObjectKey> {
        self.variants.routes_of(fleets)
    }

    /// Returns the routes with a plan that was set since the last call, with the HTTPProxies that they include, or
    /// included before.
    pub fn take_changed_routes(&mut self) -> BTreeSet<ObjectKey> {
        self.routes.take_changed()
    }

    /// Returns the plans of the route objects, in order.
    pub fn routes(&self) -> BTreeMap<&ObjectKey, &RoutePlan> {
        self.routes.each().map(|(key, plan)| (key, &**plan)).collect()
    }

    /// Returns the number of route objects at each listener that has any.
    pub fn attached(&self) -> &BTreeMap<ListenerId, i32> {
        &self.routes.attached.counts
    }

    /// Returns the hosts of root HTTPProxies in each route table of the Gateways; a host that several roots claim is
    /// there for each of them.
    pub fn proxy_hosts(&self) -> BTreeMap<(&ObjectKey, &TableName), Vec<&Host>> {
        let mut hosts: BTreeMap<_, Vec<&Host>> = BTreeMap::new();
        for (_, plan) in self.routes.proxies() {
            for (gateway, table, host) in &plan.places {
                hosts.entry((gateway, table)).or_default().push(host);
            }
        }
        hosts
    }

    /// Returns the duplicate matches of each Gateway's route objects, as they are served.
    pub fn duplicates(&self) -> BTreeMap<&ObjectKey, Duplicates> {
        let main = self.assembly.fleets.iter().filter(|(id, _)| **id == FleetId::main(&id.gateway));
        let all = main.map(|(id, fleet)| (&id.gateway, fleet.duplicates(self.overlay(id))));
        all.filter(|(_, duplicates)| !duplicates.lost.is_empty()).collect()
    }

    /// Returns the duplicate matches as faults.
    pub(crate) fn duplicate_faults(&self) -> Vec<Fault> {
        let all = self.duplicates().into_values().flat_map(|duplicates| duplicates.lost);
        all.flat_map(|(key, lost)| lost.into_iter().map(move |one| one.fault(&key))).collect()
    }
}
