//! What single fleets are served otherwise than desired: objects in another version, units that are closed.
//!
//! Only what an overlay touches is translated once more: the routes it speaks of and those that read an object it
//! speaks of. Everything else is shared with what is desired.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_xds::Snapshot;

use super::claims;
use super::fleet::{Composition, FleetId};
use super::gateway::{self, Outcome};
use super::overlay::Overlay;
use super::policy::level;
use super::proxy;
use super::reader::{Input, Reader};
use super::route::{self, Rendered, RoutePlan};
use super::{Translator, Unit, endpoints, guard};
use crate::apis::Body;
use crate::apis::gateway::listener_set;
use crate::encode::names;
use crate::features::redirect::ListenerContext;
use crate::settings::Settings;
use crate::snapshot::ObjectSnapshot;

/// The overlays in force, and what was made under them.
#[derive(Debug, Default)]
pub(super) struct Variants {
    overlays: BTreeMap<FleetId, Arc<Overlay>>,
    routes: BTreeMap<(FleetId, ObjectKey), Arc<RoutePlan>>,
    gateways: BTreeSet<FleetId>,
    /// Fleets to which policies of their Gateway say something else than desired.
    levels: BTreeSet<FleetId>,
}

impl Variants {
    /// Is the Gateway itself served otherwise to this fleet?
    pub(super) fn has_gateway(&self, fleet: &FleetId) -> bool {
        self.gateways.contains(fleet)
    }

    /// Do policies of the Gateway say something else than desired to this fleet?
    pub(super) fn has_levels(&self, fleet: &FleetId) -> bool {
        self.levels.contains(fleet)
    }
}

impl Translator {
    /// The fleets of a Gateway.
    pub(super) fn fleets_of(&self, gateway: &ObjectKey) -> Vec<FleetId> {
        let from = self.fleets.range(FleetId::main(gateway)..);
        from.map(|(id, _)| id).take_while(|id| id.gateway == *gateway).cloned().collect()
    }

    /// Opens another fleet of a Gateway, like one that is there; nothing happens where it is open already.
    pub(crate) fn open(&mut self, id: &FleetId, like: &FleetId) {
        let Some(fleet) = self.fleets.get(like).filter(|_| !self.fleets.contains_key(id)).cloned() else { return };
        self.fleets.insert(id.clone(), fleet);
        let varied: Vec<_> = self.variants.routes.iter().filter(|((of, _), _)| of == like).collect();
        let varied: Vec<_> = varied.into_iter().map(|((_, key), plan)| (key.clone(), plan.clone())).collect();
        for (key, plan) in varied {
            self.variants.routes.insert((id.clone(), key.clone()), plan);
            self.dirty.insert(Unit::RouteVariant(id.clone(), key));
        }
        if let Some(overlay) = self.variants.overlays.get(like).cloned() {
            self.variants.overlays.insert(id.clone(), overlay);
        }
        if self.variants.gateways.contains(like) {
            self.variants.gateways.insert(id.clone());
            self.dirty.insert(Unit::GatewayVariant(id.clone()));
        }
        if self.variants.levels.contains(like) {
            self.variants.levels.insert(id.clone());
            self.dirty.insert(Unit::LevelsVariant(id.clone()));
        }
        self.touched.insert(id.clone());
    }

    /// Closes a fleet and forgets what was made for it.
    pub(crate) fn close(&mut self, id: &FleetId) {
        self.variants.overlays.remove(id);
        self.variants.gateways.remove(id);
        self.drop_unit(Unit::GatewayVariant(id.clone()));
        self.variants.levels.remove(id);
        self.drop_unit(Unit::LevelsVariant(id.clone()));
        let own: Vec<_> = self.variants.routes.keys().filter(|(of, _)| of == id).cloned().collect();
        for (of, key) in own {
            let plan = self.variants.routes.remove(&(of, key.clone()));
            self.drop_unit(Unit::RouteVariant(id.clone(), key));
            if let Some(plan) = plan {
                plan.services().iter().for_each(|service| self.release_service(service));
            }
        }
        self.fleets.remove(id);
        self.touched.remove(id);
        self.keep_endpoints(id, BTreeSet::new());
    }

    /// From now on the fleet is served with these differences. Takes effect with the next translation.
    pub(crate) fn lay_over(&mut self, id: &FleetId, overlay: Overlay) {
        let before = self.variants.overlays.get(id).cloned().unwrap_or_default();
        if *before == overlay {
            return;
        }
        let keys: BTreeSet<ObjectKey> = before.keys().into_iter().chain(overlay.keys()).cloned().collect();
        let changed: Vec<ObjectKey> = keys.into_iter().filter(|key| before.differs_at(&overlay, key)).collect();
        if before.policies != overlay.policies {
            self.dirty.insert(Unit::LevelsVariant(id.clone()));
        }
        if overlay.is_empty() {
            self.variants.overlays.remove(id);
        } else {
            self.variants.overlays.insert(id.clone(), Arc::new(overlay));
        }
        self.dirty.insert(Unit::GatewayVariant(id.clone()));
        for key in changed {
            for route in self.routes_reading(&key) {
                self.dirty.insert(Unit::RouteVariant(id.clone(), route));
            }
            // The ports of a Service of which nothing is desired that can be read.
            let readers = self.readers.get(&Input::Object(key.clone()));
            let endpoints = readers.into_iter().flatten().filter(|unit| matches!(unit, Unit::Endpoints(_)));
            self.dirty.extend(endpoints.cloned());
            // An object of which nothing is desired that can be read: only the overlay has it.
            self.dirty.insert(Unit::RouteVariant(id.clone(), key));
        }
    }

    /// The route objects whose translation has looked at an object, or at what became of it.
    pub(crate) fn routes_reading(&self, key: &ObjectKey) -> BTreeSet<ObjectKey> {
        let direct = self.readers.get(&Input::Object(key.clone())).into_iter().flatten();
        let policies = direct.clone().filter_map(|unit| match unit {
            Unit::Policy(policy) => Some(policy),
            _ => None,
        });
        let through = policies.chain([key]).map(|policy| Input::Policy(policy.clone()));
        let through: Vec<&Unit> = through.filter_map(|input| self.readers.get(&input)).flatten().collect();
        let readers = direct.chain(through);
        let routes = readers.filter_map(|unit| match unit {
            Unit::Host(route) | Unit::Claims(route) | Unit::Route(route) | Unit::RouteVariant(_, route) => {
                Some(route.clone())
            }
            _ => None,
        });
        routes.collect()
    }

    /// The overlay by which an object is there at all, where it cannot be read as it is desired.
    pub(super) fn stand_in(&self, key: &ObjectKey, objects: &ObjectSnapshot) -> Option<Arc<Overlay>> {
        if objects.get(key).is_some() {
            return None;
        }
        self.variants.overlays.values().find(|overlay| overlay.objects.contains_key(key)).cloned()
    }

    /// The fleets that are served this route otherwise than desired.
    pub(super) fn variants_wanted(&self, route: &ObjectKey) -> BTreeSet<FleetId> {
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
        let reads = units.iter().filter_map(|unit| self.reads.get(unit)).flatten();
        overlay.closed.contains_key(route)
            || overlay.alters(route)
            || reads.into_iter().any(|input| match input {
                // Gateways and their sets are served otherwise in a unit of their own.
                Input::Object(key) => {
                    overlay.alters(key) && !matches!(&*key.kind, "Gateway" | listener_set::KIND)
                        || (proxy::is_proxy(key) && overlay.closed.contains_key(key))
                }
                Input::Policy(key) => overlay.policies.contains_key(key),
                _ => false,
            })
    }

    pub(super) fn redo_levels_variant(&mut self, unit: &Unit, id: &FleetId, objects: &ObjectSnapshot) {
        if !self.fleets.contains_key(id) {
            return;
        }
        let overlay = self.variants.overlays.get(id).filter(|overlay| !overlay.policies.is_empty()).cloned();
        let levels = match overlay {
            Some(overlay) => {
                self.variants.levels.insert(id.clone());
                let read = self.read_over(unit, Some(&overlay), objects, |_, reader| level::plan(&id.gateway, reader));
                // What is said stays said.
                let Some(levels) = read.0 else { return };
                Arc::new(levels)
            }
            None => {
                self.forget(unit);
                if !self.variants.levels.remove(id) {
                    return;
                }
                self.levels.get(&id.gateway).cloned().unwrap_or_default()
            }
        };
        if let Some(fleet) = self.fleets.get_mut(id) {
            let before = fleet.levels().clone();
            fleet.set_levels(levels.clone());
            self.touched.insert(id.clone());
            self.endpoints_wanted(&before.services(), &levels.services());
            self.certificates_shown(&before.shown(), &levels.shown());
        }
    }

    pub(super) fn redo_route_variant(&mut self, unit: &Unit, id: &FleetId, key: &ObjectKey, objects: &ObjectSnapshot) {
        if !self.fleets.contains_key(id) {
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
                self.forget(unit);
                None
            }
        };
        let at = (id.clone(), key.clone());
        let old = match &plan {
            Some(plan) => self.variants.routes.insert(at, plan.clone()),
            None => self.variants.routes.remove(&at),
        };
        let served = if overlay.is_some() { plan.clone() } else { self.routes.get(key).cloned() };
        if let Some(fleet) = self.fleets.get_mut(id)
            && !served.as_ref().is_some_and(|plan| fleet.has(key, plan))
        {
            fleet.set_route(key, served.as_ref());
            self.touched.insert(id.clone());
        }
        // What is served again as desired may ask for endpoints that nobody else asked for meanwhile.
        self.services_changed(old.as_deref(), served.as_deref());
    }

    pub(super) fn redo_gateway_variant(&mut self, unit: &Unit, id: &FleetId, objects: &ObjectSnapshot) {
        if !self.fleets.contains_key(id) {
            return;
        }
        let before = self.certificates_of(&id.gateway);
        let overlay = self.variants.overlays.get(id).cloned();
        let secrets = |overlay: &Overlay| {
            let secrets = overlay.objects.values().filter(|object| matches!(object.body, Body::Secret(_)));
            let hidden = overlay.hidden.iter().filter(|key| &*key.kind == "Secret");
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
                        Outcome::Stray(_) | Outcome::None => None,
                    }
                });
                self.variants.gateways.insert(id.clone());
                match read.0.flatten() {
                    Some((mut plan, certificates)) => {
                        self.close_listeners(&id.gateway, &mut plan, overlay);
                        (Some(Arc::new(plan)), certificates)
                    }
                    None => (None, BTreeMap::new()),
                }
            }
            _ => {
                self.forget(unit);
                if !self.variants.gateways.remove(id) {
                    return;
                }
                (self.plans.get(&id.gateway).cloned(), BTreeMap::new())
            }
        };
        if let (Some(fleet), Some(plan)) = (self.fleets.get_mut(id), plan) {
            fleet.hold_certificates(certificates);
            fleet.set_plan(plan);
            self.touched.insert(id.clone());
        }
        let after = self.certificates_of(&id.gateway);
        self.certificates_changed(&before, &after);
    }

    /// What a route would be under an overlay, without putting it into force.
    pub(crate) fn try_route(&self, key: &ObjectKey, over: &Overlay, objects: &ObjectSnapshot) -> Option<RoutePlan> {
        if proxy::is_proxy(key) {
            return self.try_share(key, over, objects);
        }
        let mut reader = self.reader(Some(over), objects);
        guard::guarded(|| plan_over(key, over, &self.settings, &mut reader)).flatten()
    }

    /// The parts of a route as it is made under an overlay; none where the overlay changes nothing that it reads.
    pub(crate) fn contents_under(
        &self,
        gateway: &ObjectKey,
        key: &ObjectKey,
        overlay: &Overlay,
        objects: &ObjectSnapshot,
    ) -> Vec<(Content, Node)> {
        let units = match proxy::is_proxy(key) {
            // A unit is the root with all that it includes.
            true => self.roots_reading(key).into_iter().map(Unit::Route).collect(),
            false => vec![Unit::Claims(key.clone()), Unit::Route(key.clone())],
        };
        let mut reads = units.iter().filter_map(|unit| self.reads.get(unit)).flatten();
        let altered = |input: &Input| match input {
            Input::Object(key) => overlay.alters(key),
            Input::Policy(key) => overlay.policies.contains_key(key),
            _ => false,
        };
        if !reads.any(altered) {
            return Vec::new();
        }
        let over = Overlay { closed: BTreeMap::new(), ..overlay.clone() };
        let plan = self.try_route(key, &over, objects);
        plan.map(|plan| self.contents(gateway, &plan)).unwrap_or_default()
    }

    /// May an object use another one today?
    pub(crate) fn is_granted(&self, from: &ObjectKey, to: &ObjectKey, objects: &ObjectSnapshot) -> bool {
        self.reader(None, objects).granted((&from.group, &from.kind, &from.namespace), to)
    }

    /// The parts of a route's plan in the fleets of a Gateway.
    pub(crate) fn contents(&self, gateway: &ObjectKey, plan: &RoutePlan) -> Vec<(Content, Node)> {
        self.fleets.get(&FleetId::main(gateway)).map(|fleet| fleet.contents(plan)).unwrap_or_default()
    }

    /// Those of the parts of a route's plan that are of some sort.
    pub(crate) fn parts_of(
        &self,
        gateway: &ObjectKey,
        plan: &RoutePlan,
        wanted: impl Fn(&Rendered, ListenerContext) -> bool,
    ) -> Vec<(Content, Node)> {
        let fleet = self.fleets.get(&FleetId::main(gateway));
        fleet.map(|fleet| fleet.parts_of(plan, wanted)).unwrap_or_default()
    }

    /// The parts of a route's plan in the tables of a Gateway that have one of these contents, by route configuration.
    pub(crate) fn parts_with(
        &self,
        gateway: &ObjectKey,
        plan: &RoutePlan,
        contents: &BTreeSet<Content>,
    ) -> BTreeMap<String, BTreeMap<Content, Arc<Rendered>>> {
        let mut parts: BTreeMap<String, BTreeMap<Content, Arc<Rendered>>> = BTreeMap::new();
        let fleet = self.fleets.get(&FleetId::main(gateway));
        for (table, context, served) in fleet.into_iter().flat_map(|fleet| fleet.placed(plan)) {
            let content = served.encoded(context).1;
            if contents.contains(&content) {
                parts.entry(names::route_configuration(table)).or_default().insert(content, served);
            }
        }
        parts
    }

    /// Does a route in the Gateway's main fleet have this content? Looks at all of them: for questions that are rare.
    pub(crate) fn has_content(&self, gateway: &ObjectKey, content: &Content) -> bool {
        self.fleets.get(&FleetId::main(gateway)).is_some_and(|fleet| fleet.has_content(content))
    }

    /// Routes of which translation serves a rule otherwise than it is written.
    pub(crate) fn invalid_routes(&self) -> impl Iterator<Item = &ObjectKey> {
        self.replaced_routes.iter()
    }

    /// Routes with a hostname that cannot be used.
    pub(crate) fn unclaimed_routes(&self) -> impl Iterator<Item = &ObjectKey> {
        self.unclaimed_routes.iter()
    }

    /// The certificates that a Gateway's listeners use as desired, and those that back ends are shown, with the hash of
    /// each.
    pub(crate) fn certificates(&self, gateway: &ObjectKey) -> BTreeMap<ObjectKey, Content> {
        let listeners = self.plans.get(gateway).into_iter().flat_map(|plan| plan.all());
        let fleet = self.fleets.get(&FleetId::main(gateway));
        let shown = fleet.map(|fleet| fleet.certificates()).unwrap_or_default();
        let keys = listeners.flat_map(|listener| &listener.certificates).chain(&shown);
        keys.filter_map(|key| Some((key.clone(), Content(*self.secrets.get(key)?.version.as_bytes())))).collect()
    }

    /// What a fleet should have.
    pub(crate) fn snapshot(&self, id: &FleetId) -> Option<&Snapshot> {
        self.fleets.get(id).map(super::fleet::Fleet::snapshot)
    }

    /// Certificates of a Gateway's listeners that are there and cannot be used, and why.
    pub(crate) fn broken_certificates(&self, gateway: &ObjectKey) -> BTreeMap<ObjectKey, String> {
        let listeners = self.plans.get(gateway).into_iter().flat_map(|plan| plan.all());
        listeners.flat_map(|listener| listener.broken_certificates.iter().cloned()).collect()
    }

    /// Every route object.
    pub(crate) fn route_keys(&self) -> BTreeSet<ObjectKey> {
        self.routes.keys().filter(|key| !proxy::is_proxy(key)).chain(self.shares.keys()).cloned().collect()
    }

    /// The desired plan of a route; of an HTTPProxy what is its own in those of its roots.
    pub(crate) fn route(&self, key: &ObjectKey) -> Option<&Arc<RoutePlan>> {
        if proxy::is_proxy(key) { self.shares.get(key) } else { self.routes.get(key) }
    }

    /// The plan of a route as a fleet is served it.
    pub(crate) fn served_route(&self, id: &FleetId, key: &ObjectKey) -> Option<&Arc<RoutePlan>> {
        self.variants.routes.get(&(id.clone(), key.clone())).or_else(|| self.routes.get(key))
    }

    /// What is a route object's own in what a fleet is served: of an HTTPProxy its part in the plans of its roots.
    pub(crate) fn served_share(&self, id: &FleetId, key: &ObjectKey) -> Option<Arc<RoutePlan>> {
        if !proxy::is_proxy(key) {
            return self.served_route(id, key).cloned();
        }
        let roots = self.roots_reading(key);
        self.share_of(key, roots.iter().filter_map(|root| self.served_route(id, root))).map(Arc::new)
    }

    /// What a fleet's route configuration of this name is made of.
    pub(crate) fn composition(&self, id: &FleetId, resource: &str) -> Option<(&Composition, ListenerContext)> {
        self.fleets.get(id)?.composition(resource)
    }
}

/// What a route is under an overlay.
fn plan_over(key: &ObjectKey, overlay: &Overlay, settings: &Settings, reader: &mut Reader<'_>) -> Option<RoutePlan> {
    if proxy::is_proxy(key) {
        return proxy::plan(key, &overlay.closed, settings, reader);
    }
    let claims = claims::claims(key, settings, reader)?;
    let open = route::Closed::new();
    route::plan(key, &claims, overlay.closed.get(key).unwrap_or(&open), settings, reader)
}
