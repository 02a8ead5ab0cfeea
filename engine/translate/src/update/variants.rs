//! Variants: outcomes for single fleets that differ from the desired ones, by objects in another version and closed
//! units.
//!
//! Only the routes that an overlay mentions, and those that read an object of the overlay, are translated again.
//! Everything else is shared with the desired outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::kinds;
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_graph::ObjectKey;

use crate::assembly::endpoints;
use crate::assembly::fleet::FleetId;
use crate::gateway_api::gateway::{self, Outcome};
use crate::gateway_api::{claims, route};
use crate::outcome::delegation::selections;
use crate::outcome::policy::is_policy;
use crate::outcome::route::RoutePlan;
use crate::overlay::{ClosedSections, Overlay};
use crate::policy::level;
use crate::reader::{Input, Reader};
use crate::{Translator, Unit, httpproxy};

/// The overlays in force, and the outcomes under them.
#[derive(Debug, Default)]
pub(crate) struct Variants {
    overlays: BTreeMap<FleetId, Arc<Overlay>>,
    pub(crate) routes: BTreeMap<(FleetId, ObjectKey), Arc<RoutePlan>>,
    gateways: BTreeSet<FleetId>,
    /// Fleets with policy settings of their Gateway that differ from the desired ones.
    levels: BTreeSet<FleetId>,
}

impl Variants {
    /// Returns whether this fleet is served a variant of the Gateway itself.
    pub(crate) fn has_gateway(&self, fleet: &FleetId) -> bool {
        self.gateways.contains(fleet)
    }

    /// Returns the routes that one of these fleets is served in another form than the desired one.
    pub(crate) fn routes_of<'a>(&'a self, fleets: &'a BTreeSet<FleetId>) -> impl Iterator<Item = &'a ObjectKey> {
        self.routes.keys().filter(|(fleet, _)| fleets.contains(fleet)).map(|(_, key)| key)
    }

    /// Returns whether this fleet has policy settings of its Gateway that differ from the desired ones.
    pub(crate) fn has_levels(&self, fleet: &FleetId) -> bool {
        self.levels.contains(fleet)
    }
}

impl Translator {
    /// Opens another fleet of a Gateway as a copy of an existing one. Does nothing if the fleet is already open.
    pub fn open(&mut self, id: &FleetId, like: &FleetId) {
        let Some(fleet) = self.assembly.fleets.get(like).filter(|_| !self.assembly.fleets.contains_key(id)).cloned()
        else {
            return;
        };
        self.assembly.fleets.insert(id.clone(), fleet);
        let varied: Vec<_> = self.variants.routes.iter().filter(|((of, _), _)| of == like).collect();
        let varied: Vec<_> = varied.into_iter().map(|((_, key), plan)| (key.clone(), plan.clone())).collect();
        for (key, plan) in varied {
            self.variants.routes.insert((id.clone(), key.clone()), plan);
            self.units.schedule(Unit::RouteVariant(id.clone(), key));
        }
        if let Some(overlay) = self.variants.overlays.get(like).cloned() {
            self.variants.overlays.insert(id.clone(), overlay);
        }
        if self.variants.gateways.contains(like) {
            self.variants.gateways.insert(id.clone());
            self.units.schedule(Unit::GatewayVariant(id.clone()));
        }
        if self.variants.levels.contains(like) {
            self.variants.levels.insert(id.clone());
            self.units.schedule(Unit::LevelsVariant(id.clone()));
        }
        self.assembly.touched.insert(id.clone());
    }

    /// Closes a fleet and removes its outcomes.
    pub fn close(&mut self, id: &FleetId) {
        self.variants.overlays.remove(id);
        self.variants.gateways.remove(id);
        self.units.cancel(&Unit::GatewayVariant(id.clone()));
        self.variants.levels.remove(id);
        self.units.cancel(&Unit::LevelsVariant(id.clone()));
        let own: Vec<_> = self.variants.routes.keys().filter(|(of, _)| of == id).cloned().collect();
        for (of, key) in own {
            let plan = self.variants.routes.remove(&(of, key.clone()));
            self.units.cancel(&Unit::RouteVariant(id.clone(), key));
            if let Some(plan) = plan {
                plan.services().iter().for_each(|service| self.release_service(service));
            }
        }
        self.assembly.fleets.remove(id);
        self.assembly.touched.remove(id);
        self.keep_endpoints(id, BTreeSet::new());
    }

    /// Returns the overlay of a configuration, if it has one.
    pub fn overlay(&self, id: &FleetId) -> Option<&Overlay> {
        self.variants.overlays.get(id).map(|overlay| &**overlay)
    }

    /// Sets the overlay of a fleet. It takes effect with the next translation.
    pub fn lay_over(&mut self, id: &FleetId, overlay: Overlay) {
        let before = self.variants.overlays.get(id).cloned().unwrap_or_default();
        if *before == overlay {
            return;
        }
        let keys: BTreeSet<ObjectKey> = before.keys().into_iter().chain(overlay.keys()).cloned().collect();
        let changed: Vec<ObjectKey> = keys.into_iter().filter(|key| before.differs_at(&overlay, key)).collect();
        if before.policies != overlay.policies {
            self.units.schedule(Unit::LevelsVariant(id.clone()));
        }
        let overlay = Arc::new(overlay);
        if overlay.is_empty() {
            self.variants.overlays.remove(id);
        } else {
            self.variants.overlays.insert(id.clone(), overlay.clone());
        }
        self.units.schedule(Unit::GatewayVariant(id.clone()));
        for key in changed {
            let versions = [before.objects.get(&key), overlay.objects.get(&key)].into_iter().flatten();
            let mut routes = self.routes_reading(&key);
            routes.extend(versions.flat_map(|version| self.routes_below(version)));
            for route in routes {
                self.units.schedule(Unit::RouteVariant(id.clone(), route));
            }
            // Ports of a Service without a readable desired version.
            let readers = self.units.readers(&Input::Object(key.clone()));
            let endpoints: Vec<Unit> = readers.filter(|unit| matches!(unit, Unit::Endpoints(_))).cloned().collect();
            self.units.extend(endpoints);
            // An object without a readable desired version exists only in the overlay.
            self.units.schedule(Unit::RouteVariant(id.clone(), key));
        }
    }

    /// Returns the route objects that read an object, or the plan of this object, in translation.
    pub fn routes_reading(&self, key: &ObjectKey) -> BTreeSet<ObjectKey> {
        let direct = self.units.readers(&Input::Object(key.clone()));
        let policies = direct.clone().filter_map(|unit| match unit {
            Unit::Policy(policy) => Some(policy),
            _ => None,
        });
        let own = is_policy(key).then_some(key);
        let through = policies.chain(own).map(|policy| Input::Outcome(policy.clone()));
        let through: Vec<&Unit> = through.flat_map(|input| self.units.readers(&input)).collect();
        let readers = direct.chain(through);
        let routes = readers.filter_map(|unit| match unit {
            Unit::Host(route) | Unit::Claims(route) | Unit::Route(route) | Unit::RouteVariant(_, route) => {
                Some(route.clone())
            }
            _ => None,
        });
        routes.collect()
    }

    /// Returns the routes that a version of an HTTPRoute may delegate to. They do not read the HTTPRoute if the references
    /// of its desired version cannot be read.
    pub fn routes_below(&self, object: &Object) -> BTreeSet<ObjectKey> {
        let Body::HttpRoute(route) = &object.body else { return BTreeSet::new() };
        let selections = selections(route, &object.key.namespace).map(Input::Delegating);
        let readers = selections.flat_map(|selection| self.units.readers(&selection).collect::<Vec<_>>());
        let routes = readers.filter_map(|unit| match unit {
            Unit::Claims(route) => Some(route.clone()),
            _ => None,
        });
        routes.collect()
    }

    /// Returns an overlay that contains an object without a readable desired version.
    pub(crate) fn stand_in(&self, key: &ObjectKey, objects: &ObjectSnapshot) -> Option<Arc<Overlay>> {
        if objects.get(key).is_some() {
            return None;
        }
        self.variants.overlays.values().find(|overlay| overlay.objects.contains_key(key)).cloned()
    }

    /// Returns the fleets that are served a variant of this route.
    pub(crate) fn variants_wanted(&self, route: &ObjectKey) -> BTreeSet<FleetId> {
        let wanted = self.variants.overlays.iter().filter(|(id, overlay)| self.varies(id, overlay, route));
        wanted.map(|(id, _)| id.clone()).collect()
    }

    fn varies(&self, id: &FleetId, overlay: &Overlay, route: &ObjectKey) -> bool {
        let units = [
            Unit::Host(route.clone()),
            Unit::Claims(route.clone()),
            Unit::Route(route.clone()),
            Unit::RouteVariant(id.clone(), route.clone()),
        ];
        let reads = units.iter().flat_map(|unit| self.units.reads(unit));
        overlay.closed.contains_key(route)
            || overlay.alters(route)
            || reads.into_iter().any(|input| match input {
                // Gateways and ListenerSets have variants in a unit of their own.
                Input::Object(key) => {
                    overlay.alters(key) && !matches!(&*key.kind, kinds::GATEWAY | kinds::LISTENER_SET)
                        || (httpproxy::is_proxy(key) && overlay.closed.contains_key(key))
                }
                Input::Outcome(key) => overlay.policies.contains_key(key),
                Input::Delegating(selection) => overlay.delegates_to(selection),
                _ => false,
            })
    }

    pub(crate) fn redo_levels_variant(&mut self, unit: &Unit, id: &FleetId, objects: &ObjectSnapshot) {
        if !self.assembly.fleets.contains_key(id) {
            return;
        }
        let overlay = self.variants.overlays.get(id).filter(|overlay| !overlay.policies.is_empty()).cloned();
        let levels = match overlay {
            Some(overlay) => {
                self.variants.levels.insert(id.clone());
                let read = self.read_over(unit, Some(&overlay), objects, |_, reader| level::plan(&id.gateway, reader));
                // Translation failed: the last settings stay in force.
                let Some(levels) = read.0 else { return };
                Arc::new(levels)
            }
            None => {
                self.units.forget(unit);
                if !self.variants.levels.remove(id) {
                    return;
                }
                self.policy.levels.get(&id.gateway).cloned().unwrap_or_default()
            }
        };
        if let Some(fleet) = self.assembly.fleets.get_mut(id) {
            let before = fleet.levels().clone();
            fleet.set_levels(levels.clone());
            self.assembly.touched.insert(id.clone());
            self.endpoints_wanted(&before.services(), &levels.services());
            self.certificates_shown(&before.shown(), &levels.shown());
        }
    }

    pub(crate) fn redo_route_variant(&mut self, unit: &Unit, id: &FleetId, key: &ObjectKey, objects: &ObjectSnapshot) {
        if !self.assembly.fleets.contains_key(id) {
            return;
        }
        let overlay = self.variants.overlays.get(id).cloned();
        let overlay = overlay.filter(|overlay| self.varies(id, overlay, key));
        let plan = match &overlay {
            Some(overlay) => {
                let (plan, _) = self.read_over(unit, Some(overlay), objects, |settings, reader| {
                    plan_over(key, overlay, settings, reader)
                });
                match plan {
                    Some(plan) => plan.map(Arc::new),
                    None => self.routes.get(key).cloned(),
                }
            }
            None => {
                self.units.forget(unit);
                None
            }
        };
        let at = (id.clone(), key.clone());
        let old = match &plan {
            Some(plan) => self.variants.routes.insert(at, plan.clone()),
            None => self.variants.routes.remove(&at),
        };
        let served = if overlay.is_some() { plan.clone() } else { self.routes.get(key).cloned() };
        if let Some(fleet) = self.assembly.fleets.get_mut(id)
            && !served.as_ref().is_some_and(|plan| fleet.has(key, plan))
        {
            fleet.set_route(key, served.as_ref());
            self.assembly.touched.insert(id.clone());
        }
        // A route that is served as desired again may need endpoints that no other route needed meanwhile.
        self.services_changed(old.as_deref(), served.as_deref());
    }

    pub(crate) fn redo_gateway_variant(&mut self, unit: &Unit, id: &FleetId, objects: &ObjectSnapshot) {
        if !self.assembly.fleets.contains_key(id) {
            return;
        }
        let before = self.assembly.certificates_of(&id.gateway);
        let overlay = self.variants.overlays.get(id).cloned();
        let secrets = |overlay: &Overlay| {
            let secrets = overlay.objects.values().filter(|object| matches!(object.body, Body::Secret(_)));
            let hidden = overlay.hidden.iter().filter(|key| &*key.kind == kinds::SECRET);
            secrets.map(|object| &object.key).chain(hidden).cloned().collect::<Vec<_>>()
        };
        let held = overlay.as_deref().map(secrets).unwrap_or_default();
        let closes = overlay.as_deref().is_some_and(|overlay| !self.refused_listeners(&id.gateway, overlay).is_empty());
        let (plan, certificates) = match &overlay {
            Some(overlay) if !held.is_empty() || closes => {
                let read = self.read_over(unit, Some(overlay), objects, |settings, reader| {
                    let certificates: BTreeMap<_, _> = held
                        .iter()
                        .filter_map(|key| Some((key.clone(), Arc::new(endpoints::secret(key, reader)?))))
                        .collect();
                    match gateway::plan(&id.gateway, settings, reader) {
                        Outcome::Served(plan) => Some((plan, certificates)),
                        Outcome::NotServed(_) | Outcome::None => None,
                    }
                });
                self.variants.gateways.insert(id.clone());
                match read.0.flatten() {
                    Some((mut plan, certificates)) => {
                        self.close_listeners(&id.gateway, &mut plan, overlay);
                        (Some(plan.into()), certificates)
                    }
                    None => (None, BTreeMap::new()),
                }
            }
            _ => {
                self.units.forget(unit);
                if !self.variants.gateways.remove(id) {
                    return;
                }
                (self.outcomes.gateways.get(&id.gateway).cloned(), BTreeMap::new())
            }
        };
        if let (Some(fleet), Some(plan)) = (self.assembly.fleets.get_mut(id), plan) {
            fleet.hold_certificates(certificates);
            fleet.set_plan(plan);
            self.assembly.touched.insert(id.clone());
        }
        let after = self.assembly.certificates_of(&id.gateway);
        self.certificates_changed(&before, &after);
    }
}

/// Returns the plan of a route under an overlay.
pub(crate) fn plan_over(
    key: &ObjectKey,
    overlay: &Overlay,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Option<RoutePlan> {
    if httpproxy::is_proxy(key) {
        return httpproxy::plan(key, &overlay.closed, settings, reader);
    }
    let claims = claims::claims(key, settings, reader)?;
    let open = ClosedSections::new();
    route::plan(key, &claims, overlay.closed.get(key).unwrap_or(&open), settings, reader)
}
