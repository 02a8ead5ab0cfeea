//! Outcomes of Gateway API: GatewayClasses, Gateways, and routes.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::object::Age;
use holdfast_envoy::model::FixedResponse;
use holdfast_graph::ObjectKey;

use super::{Changes, Run, Translator, Unit};
use crate::assembly::fleet::{Fleet, FleetId};
use crate::gateway_api::{claims, gateway, infrastructure, route};
use crate::httpproxy;
use crate::incremental::guard;
use crate::outcome::Outcome;
use crate::outcome::claims::Claims;
use crate::outcome::gateway::{GatewayPlan, LentListeners};
use crate::outcome::route::RoutePlan;
use crate::overlay::ClosedSections;
use crate::reader::Input;

impl Translator {
    /// Reads the data plane parameters of a GatewayClass.
    pub(super) fn redo_class(&mut self, unit: &Unit, key: &ObjectKey, run: &mut Run<'_>) {
        let (fault, edges) =
            self.read(unit, run.objects, |settings, reader| infrastructure::flawed(key, settings, reader));
        run.graph.replace(key, edges);
        match fault.unwrap_or_else(|| Some(guard::fault(key))) {
            Some(fault) => drop(self.gateway_api.classes.insert(key.clone(), fault)),
            None => drop(self.gateway_api.classes.remove(key)),
        }
        if run.objects.get(key).is_none() {
            self.units.forget(unit);
        }
    }

    /// Translates a Gateway.
    pub(super) fn redo_gateway(&mut self, unit: &Unit, key: &ObjectKey, run: &mut Run<'_>) {
        let before = self.outcomes.gateways.get(key).cloned();
        let (seen, edges) = self.read(unit, run.objects, |settings, reader| gateway::plan(key, settings, reader));
        let seen = seen.unwrap_or_else(|| gateway::failed(key, before.as_deref()));
        self.gateway_api.edges.entry(key.clone()).or_default().0 = edges;
        self.gateway_api.link(key, run.graph);
        let (plan, not_served) = match seen {
            gateway::Outcome::Served(plan) => (Some(plan.into()), None),
            gateway::Outcome::NotServed(fault) => (None, Some(fault)),
            gateway::Outcome::None => (None, None),
        };
        run.changes.gateways.insert(key.clone());
        self.set_plan(key, plan, run.changes);
        match not_served {
            Some(fault) => self.gateway_api.unserved.insert(key.clone(), fault),
            None => self.gateway_api.unserved.remove(key),
        };
        if run.objects.get(key).is_none() && *key != httpproxy::listeners::key() {
            self.units.forget(unit);
        }
    }

    /// Reads the claims of a route.
    pub(super) fn redo_claims(&mut self, unit: &Unit, key: &ObjectKey, run: &mut Run<'_>) {
        let (claims, edges) = self.read(unit, run.objects, |settings, reader| claims::claims(key, settings, reader));
        let before = self.gateway_api.claims.get(key);
        let claims = claims.unwrap_or_else(|| Some(claims::failed(key, before.map(|claims| &**claims))));
        let age = run.objects.get(key).map(|object| object.age());
        self.set_claims(key, claims.zip(age).map(|(claims, age)| (Claims { edges, ..claims }.trimmed(), age)));
    }

    /// Translates an HTTPRoute or GRPCRoute.
    pub(super) fn redo_route(&mut self, unit: &Unit, key: &ObjectKey, run: &mut Run<'_>) {
        let claims = self.gateway_api.claims.get(key).cloned();
        let (plan, mut edges) = self.read(unit, run.objects, |settings, reader| {
            let desired = ClosedSections::new();
            claims.as_ref().and_then(|claims| route::plan(key, claims, &desired, settings, reader))
        });
        let plan = plan.unwrap_or_else(|| {
            let object = run.objects.get(key)?;
            Some(route::failed(object, claims.as_deref()?, &self.settings))
        });
        edges.extend(claims.iter().flat_map(|claims| claims.edges.iter().cloned()));
        run.graph.replace(key, edges);
        run.changes.routes.insert(key.clone());
        let before = self.routes.get(key).map(|plan| plan.gateways()).unwrap_or_default();
        let after = plan.as_ref().map(RoutePlan::gateways).unwrap_or_default();
        run.changes.gateways.extend(before.difference(&after).map(|gateway| (*gateway).clone()));
        self.set_route(key, plan.map(|plan| Arc::new(plan.trimmed())));
    }

    pub(crate) fn set_plan(&mut self, key: &ObjectKey, plan: Option<Arc<GatewayPlan>>, changes: &mut Changes) {
        if self.outcomes.gateways.get(key) == plan.as_ref() {
            return;
        }
        let before = self.assembly.certificates_of(key);
        let same_to_routes = match (self.outcomes.gateways.get(key), &plan) {
            (Some(old), Some(new)) => old.is_same_to_routes(new),
            _ => false,
        };
        match plan {
            Some(plan) => {
                Outcome::set(&mut self.outcomes, key, Some(plan.clone()));
                let main = FleetId::main(key);
                if !self.assembly.fleets.contains_key(&main) {
                    let closed =
                        FixedResponse::new(self.settings.closed_status, self.settings.missing_backend_body.clone());
                    self.assembly.fleets.insert(main.clone(), Fleet::new(key.clone(), plan.clone(), closed));
                    self.assembly.touched.insert(main);
                }
                for id in self.assembly.fleets_of(key) {
                    if self.variants.has_gateway(&id) {
                        self.units.schedule(Unit::GatewayVariant(id));
                    } else if let Some(fleet) = self.assembly.fleets.get_mut(&id) {
                        fleet.set_plan(plan.clone());
                        self.assembly.touched.insert(id);
                    }
                }
            }
            None => {
                GatewayPlan::set(&mut self.outcomes, key, None);
                let fleets = self.assembly.fleets_of(key);
                if !fleets.is_empty() {
                    changes.withdrawn.push(key.clone());
                }
                fleets.iter().for_each(|id| self.close(id));
            }
        }
        self.certificates_changed(&before, &self.assembly.certificates_of(key));
        self.units.schedule(Unit::Levels(key.clone()));
        if !same_to_routes {
            self.units.mark(&Input::Outcome(key.clone()));
        }
    }

    pub(crate) fn set_claims(&mut self, key: &ObjectKey, claims: Option<(Claims, Age)>) {
        let age = claims.as_ref().map(|(_, age)| age.clone());
        let claims = claims.map(|(claims, _)| Arc::new(claims));
        self.units.schedule(Unit::Route(key.clone()));
        let old = match &claims {
            Some(claims) => self.gateway_api.claims.insert(key.clone(), claims.clone()),
            None => {
                self.units.forget(&Unit::Claims(key.clone()));
                self.gateway_api.claims.remove(key)
            }
        };
        self.claimed(key, age.as_ref(), old.as_deref(), claims.as_deref());
        for (listener, kind) in self.outcomes.rivals.replace(key, age.as_ref(), old.as_deref(), claims.as_deref()) {
            self.units.mark(&Input::Rivals(listener, kind));
        }
    }

    pub(crate) fn set_route(&mut self, key: &ObjectKey, plan: Option<Arc<RoutePlan>>) {
        if plan.is_none() {
            self.units.forget(&Unit::Route(key.clone()));
        }
        let claims = self.gateway_api.claims.get(key).map(|claims| &**claims);
        let old = self.routes.set(key, plan.as_ref(), claims);
        let (old, new) = (old.as_deref(), plan.as_deref());
        let gateways: BTreeSet<ObjectKey> = old.into_iter().chain(new).flat_map(RoutePlan::gateways).cloned().collect();
        let varied = self.variants_wanted(key);
        let fleets: Vec<FleetId> = gateways.iter().flat_map(|gateway| self.assembly.fleets_of(gateway)).collect();
        for id in fleets {
            if varied.contains(&id) {
                self.units.schedule(Unit::RouteVariant(id, key.clone()));
                continue;
            }
            let Some(fleet) = self.assembly.fleets.get_mut(&id) else { continue };
            // A change of status or faults alone does not change what is served.
            if !plan.as_ref().is_some_and(|plan| fleet.has(key, plan)) {
                fleet.set_route(key, plan.as_ref());
                self.assembly.touched.insert(id);
            }
        }
        self.units.extend(varied.into_iter().map(|id| Unit::RouteVariant(id, key.clone())));
        self.services_changed(old, new);
    }

    /// Sets what listeners of a Gateway or ListenerSet use of its last valid version: hostnames, which apply as long as
    /// no other listener claims them, and TLS options. Returns whether this requires translation.
    pub fn lend(&mut self, owner: &ObjectKey, lent: LentListeners) -> bool {
        let before = self.outcomes.lent.get(owner);
        if before.map_or(lent.is_empty(), |before| *before == lent) {
            return false;
        }
        if lent.is_empty() {
            self.outcomes.lent.remove(owner);
        } else {
            self.outcomes.lent.insert(owner.clone(), lent);
        }
        let is_set = &*owner.kind == kinds::LISTENER_SET;
        self.units.schedule(if is_set { Unit::Set(owner.clone()) } else { Unit::Gateway(owner.clone()) });
        true
    }
}
