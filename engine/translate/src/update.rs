//! State updates of translation: stores the outcome of each unit, and marks the readers of outcomes that changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::fault::Fault;
use holdfast_api::object::Age;
use holdfast_envoy::model::{Response, ServicePort};
use holdfast_graph::ObjectKey;
use holdfast_xds::{Resource, ResourceType};

use super::claims::{self, Claims, ListenerId};
use super::fleet::{Fleet, FleetId};
use super::gateway::GatewayPlan;
use super::policy::PolicyPlan;
use super::policy::level::LevelPlan;
use super::proxy;
use super::reader::{Input, LentHostnames, Rival};
use super::route::RoutePlan;
use super::{Changes, Translator, Unit};

impl Translator {
    pub(super) fn set_plan(&mut self, key: &ObjectKey, plan: Option<Arc<GatewayPlan>>, changes: &mut Changes) {
        if self.plans.get(key) == plan.as_ref() {
            return;
        }
        let before = self.certificates_of(key);
        let same_to_routes = match (self.plans.get(key), &plan) {
            (Some(old), Some(new)) => old.is_same_to_routes(new),
            _ => false,
        };
        match plan {
            Some(plan) => {
                self.plans.insert(key.clone(), plan.clone());
                let main = FleetId::main(key);
                if !self.fleets.contains_key(&main) {
                    let closed = Response::new(self.settings.closed_status, self.settings.missing_backend_body.clone());
                    self.fleets.insert(main.clone(), Fleet::new(key.clone(), plan.clone(), closed));
                    self.touched.insert(main);
                }
                for id in self.fleets_of(key) {
                    if self.variants.has_gateway(&id) {
                        self.dirty.insert(Unit::GatewayVariant(id));
                    } else if let Some(fleet) = self.fleets.get_mut(&id) {
                        fleet.set_plan(plan.clone());
                        self.touched.insert(id);
                    }
                }
            }
            None => {
                self.plans.remove(key);
                self.lent.remove(key);
                let fleets = self.fleets_of(key);
                if !fleets.is_empty() {
                    changes.withdrawn.push(key.clone());
                }
                fleets.iter().for_each(|id| self.close(id));
            }
        }
        self.certificates_changed(&before, &self.certificates_of(key));
        self.dirty.insert(Unit::Levels(key.clone()));
        if !same_to_routes {
            self.mark(&Input::Plan(key.clone()));
        }
    }

    pub(super) fn set_policy(&mut self, key: &ObjectKey, plan: Option<PolicyPlan>) {
        let changed = self.policies.get(key).map(|known| &**known) != plan.as_ref();
        match plan {
            Some(plan) => {
                self.policies.insert(key.clone(), Arc::new(plan));
            }
            None => {
                self.policies.remove(key);
                self.forget(&Unit::Policy(key.clone()));
            }
        }
        if changed {
            self.mark(&Input::Policy(key.clone()));
        }
    }

    pub(super) fn set_levels(&mut self, key: &ObjectKey, plan: LevelPlan) {
        if !self.plans.contains_key(key) {
            self.forget(&Unit::Levels(key.clone()));
        }
        let plan = Arc::new(plan);
        let before = if *plan == LevelPlan::default() {
            self.levels.remove(key)
        } else {
            self.levels.insert(key.clone(), plan.clone())
        };
        if before.as_ref() == Some(&plan) {
            return;
        }
        for id in self.fleets_of(key) {
            if self.variants.has_levels(&id) {
                self.dirty.insert(Unit::LevelsVariant(id.clone()));
            } else if let Some(fleet) = self.fleets.get_mut(&id) {
                fleet.set_levels(plan.clone());
                self.touched.insert(id.clone());
            }
        }
        let before = before.unwrap_or_default();
        self.endpoints_wanted(&before.services(), &plan.services());
        self.certificates_shown(&before.shown(), &plan.shown());
    }

    /// Sets the hostnames for listeners of a Gateway or ListenerSet with an unusable hostname, which apply as long as
    /// no other listener claims them. Returns whether this requires translation.
    pub fn lend(&mut self, owner: &ObjectKey, hostnames: LentHostnames) -> bool {
        let before = self.lent.get(owner);
        if before.map_or(hostnames.is_empty(), |before| *before == hostnames) {
            return false;
        }
        if hostnames.is_empty() {
            self.lent.remove(owner);
        } else {
            self.lent.insert(owner.clone(), hostnames);
        }
        let is_set = &*owner.kind == kinds::LISTENER_SET;
        self.dirty.insert(if is_set { Unit::Set(owner.clone()) } else { Unit::Gateway(owner.clone()) });
        true
    }

    /// Returns the certificates that the listeners of a Gateway use, or present to backends, in any of its fleets.
    pub(super) fn certificates_of(&self, gateway: &ObjectKey) -> BTreeSet<ObjectKey> {
        let fleets = self.fleets_of(gateway);
        let fleets = fleets.iter().filter_map(|id| self.fleets.get(id));
        fleets.flat_map(Fleet::certificates).collect()
    }

    pub(super) fn certificates_changed(&mut self, before: &BTreeSet<ObjectKey>, after: &BTreeSet<ObjectKey>) {
        let missing = after.iter().filter(|secret| !self.secrets.contains_key(secret)).cloned().map(Unit::Secret);
        self.dirty.extend(missing);
        for secret in before.difference(after) {
            if !self.fleets.values().any(|fleet| fleet.uses_certificate(secret)) {
                self.secrets.remove(secret);
                self.drop_unit(Unit::Secret(secret.clone()));
            }
        }
    }

    /// Removes a unit that is no longer needed, together with its pending translation.
    pub(super) fn drop_unit(&mut self, unit: Unit) {
        self.forget(&unit);
        self.dirty.remove(&unit);
    }

    pub(super) fn set_claims(&mut self, key: &ObjectKey, claims: Option<(Claims, Age)>) {
        let age = claims.as_ref().map(|(_, age)| age.clone());
        let claims = claims.map(|(claims, _)| Arc::new(claims));
        self.dirty.insert(Unit::Route(key.clone()));
        let old = match &claims {
            Some(claims) => self.claims.insert(key.clone(), claims.clone()),
            None => {
                self.forget(&Unit::Claims(key.clone()));
                self.claims.remove(key)
            }
        };
        self.claimed(key, age.as_ref(), old.as_deref(), claims.as_deref());
        let places = |claims: &Option<Arc<Claims>>| -> BTreeSet<ListenerId> {
            claims
                .iter()
                .flat_map(|claims| claims.attachments())
                .map(|attachment| attachment.listener.clone())
                .collect()
        };
        for listener in places(&old).union(&places(&claims)) {
            let hosts = claims.iter().flat_map(|claims| claims.attachments());
            let hosts =
                hosts.filter(|a| a.listener == *listener).flat_map(|a| a.hosts.iter().cloned()).collect::<Vec<_>>();
            let rival = age.clone().filter(|_| !hosts.is_empty()).map(|age| Rival { age, hosts });
            let at = (listener.clone(), key.kind.clone());
            let routes = self.rivals.entry(at.clone()).or_default();
            let before = match rival.clone() {
                Some(rival) => routes.insert(key.clone(), rival),
                None => routes.remove(key),
            };
            if routes.is_empty() {
                self.rivals.remove(&at);
            }
            if before != rival {
                self.mark(&Input::Rivals(at.0, at.1));
            }
        }
    }

    pub(super) fn set_route(&mut self, key: &ObjectKey, plan: Option<Arc<RoutePlan>>) {
        let old = match &plan {
            Some(plan) => self.routes.insert(key.clone(), plan.clone()),
            None => {
                self.forget(&Unit::Route(key.clone()));
                self.routes.remove(key)
            }
        };
        // HTTPProxies are recorded individually, see `proxy/update.rs`.
        if !proxy::is_proxy(key) {
            if plan.as_ref().is_some_and(|plan| !plan.replaced.is_empty()) {
                self.replaced_routes.insert(key.clone());
            } else {
                self.replaced_routes.remove(key);
            }
        }
        if plan.as_ref().is_some_and(|plan| plan.faults.iter().any(claims::is_unusable_hostname)) {
            self.unclaimed_routes.insert(key.clone());
        } else {
            self.unclaimed_routes.remove(key);
        }
        let (old, new) = (old.as_deref(), plan.as_deref());
        let gateways: BTreeSet<ObjectKey> = old.into_iter().chain(new).flat_map(RoutePlan::gateways).cloned().collect();
        let varied = self.variants_wanted(key);
        let fleets: Vec<FleetId> = gateways.iter().flat_map(|gateway| self.fleets_of(gateway)).collect();
        for id in fleets {
            if varied.contains(&id) {
                self.dirty.insert(Unit::RouteVariant(id, key.clone()));
                continue;
            }
            let Some(fleet) = self.fleets.get_mut(&id) else { continue };
            // A change of status or faults alone does not change what is served.
            if !plan.as_ref().is_some_and(|plan| fleet.has(key, plan)) {
                fleet.set_route(key, plan.as_ref());
                self.touched.insert(id);
            }
        }
        self.dirty.extend(varied.into_iter().map(|id| Unit::RouteVariant(id, key.clone())));
        self.services_changed(old, new);
    }

    /// Looks up the endpoints and certificates that a new plan of a route adds, and removes those that are no longer
    /// needed.
    pub(super) fn services_changed(&mut self, old: Option<&RoutePlan>, new: Option<&RoutePlan>) {
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
    pub(super) fn endpoints_wanted(&mut self, before: &BTreeSet<ServicePort>, after: &BTreeSet<ServicePort>) {
        let unknown = after.iter().filter(|service| !self.endpoints.contains_key(service)).cloned();
        self.dirty.extend(unknown.map(Unit::Endpoints));
        for service in before.difference(after) {
            self.release_service(service);
        }
    }

    /// Looks up client certificates that backends newly require, and removes those that are no longer needed.
    pub(super) fn certificates_shown(&mut self, before: &BTreeSet<ObjectKey>, after: &BTreeSet<ObjectKey>) {
        if before != after || after.iter().any(|secret| !self.secrets.contains_key(secret)) {
            self.certificates_changed(before, after);
        }
    }

    /// Removes the endpoints of a Service's port if no fleet uses them.
    pub(super) fn release_service(&mut self, service: &ServicePort) {
        if !self.fleets.values().any(|fleet| fleet.uses(service)) && self.gateways_keeping(service).next().is_none() {
            self.endpoints.remove(service);
            self.empty_services.remove(service);
            self.endpoint_faults.remove(service);
            self.drop_unit(Unit::Endpoints(service.clone()));
        }
    }

    pub(super) fn set_endpoints(&mut self, service: &ServicePort, resource: Arc<Resource>, faults: Vec<Fault>) {
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

    pub(super) fn set_secret(&mut self, key: &ObjectKey, resource: Option<Arc<Resource>>) {
        match resource {
            Some(resource) => self.secrets.insert(key.clone(), resource),
            None => self.secrets.remove(key),
        };
        let users = self.fleets.iter().filter(|(_, fleet)| fleet.uses_certificate(key));
        self.touched.extend(users.map(|(id, _)| id.clone()));
    }
}
