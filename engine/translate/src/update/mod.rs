//! The state of translation: stores the outcome of each unit, and marks the readers of outcomes that changed.
//!
//! The outcomes of each API are a struct of that API; the functions that compute them are there, too, and do not know
//! this room.

mod assembly;
mod backend_policy;
mod gateway_api;
mod httpproxy;
mod levels;
mod unit;
pub(crate) mod variants;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_graph::{Edge, Graph, ObjectKey, visits};
use holdfast_xds::Snapshot;
pub(crate) use unit::Unit;
use variants::Variants;

use crate::assembly::Assembly;
use crate::assembly::fleet::FleetId;
use crate::assembly::routes::RoutePlans;
use crate::backend_policy::plan::BackendPolicies;
use crate::dates::Dates;
use crate::gateway_api::GatewayApi;
use crate::httpproxy::{HttpProxies, is_proxy};
use crate::incremental::{Incremental, guard};
use crate::listener_set;
use crate::outcome::{Outcome, Outcomes};
use crate::overlay::Overlay;
use crate::policy::{self, Policies};
use crate::reader::{Indexes, Input, Reader};

/// State of translation.
#[derive(Debug)]
pub struct Translator {
    pub(crate) settings: Settings,
    pub(crate) units: Incremental<Unit, Input>,
    pub(crate) indexes: Indexes,
    pub(crate) dates: Dates,
    /// Outcomes that other units read; those that only later rooms read are in a struct of each API.
    pub(crate) outcomes: Outcomes,
    pub(crate) gateway_api: GatewayApi,
    pub(crate) httpproxy: HttpProxies,
    pub(crate) policy: Policies,
    pub(crate) backend_policy: BackendPolicies,
    pub(crate) routes: RoutePlans,
    pub(crate) assembly: Assembly,
    pub(crate) variants: Variants,
}

/// Changes of one translation.
#[derive(Debug, Default)]
pub struct Changes {
    /// Fleets with new snapshots.
    pub fleets: Vec<(FleetId, Snapshot)>,
    /// Gateways that are no longer served.
    pub withdrawn: Vec<ObjectKey>,
    /// Gateways that were translated again, and those that a route has left.
    pub gateways: BTreeSet<ObjectKey>,
    /// Routes that were translated again, changed or not.
    pub routes: BTreeSet<ObjectKey>,
    /// Gateways with a route in another version that was translated again, changed or not.
    pub stand_ins: BTreeSet<ObjectKey>,
    /// Gateways with changed endpoints that only an earlier configuration uses.
    pub endpoints: BTreeSet<ObjectKey>,
}

impl Changes {
    /// Adds the changes of a later translation.
    pub fn add(&mut self, later: Changes) {
        self.fleets.extend(later.fleets);
        self.withdrawn.extend(later.withdrawn);
        self.gateways.extend(later.gateways);
        self.routes.extend(later.routes);
        self.stand_ins.extend(later.stand_ins);
        self.endpoints.extend(later.endpoints);
    }
}

/// One translation of all scheduled units.
struct Run<'a> {
    objects: &'a ObjectSnapshot,
    graph: &'a mut Graph,
    changes: &'a mut Changes,
}

impl Translator {
    /// Creates a translator without objects.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            units: Incremental::default(),
            indexes: Indexes::default(),
            dates: Dates::default(),
            outcomes: Outcomes::default(),
            gateway_api: GatewayApi::default(),
            httpproxy: HttpProxies::default(),
            policy: Policies::default(),
            backend_policy: BackendPolicies::default(),
            routes: RoutePlans::default(),
            assembly: Assembly::default(),
            variants: Variants::default(),
        }
    }

    /// Records a change of an object from `old` to `new`; `None` means that the object does not exist.
    pub fn changed(&mut self, key: &ObjectKey, old: Option<&Object>, new: Option<&Object>) {
        let left = old.map(|object| self.indexes.update(object, false)).unwrap_or_default();
        let entered = new.map(|object| self.indexes.update(object, true)).unwrap_or_default();
        // A default Gateway that stays one changes its own outcome only.
        let of_defaults = |inputs: &[Input]| inputs.contains(&Input::DefaultGateways);
        let stays_default = of_defaults(&left) && of_defaults(&entered);
        let inputs = left.into_iter().chain(entered);
        let inputs = inputs.filter(|input| !stays_default || *input != Input::DefaultGateways);
        inputs.for_each(|input| self.units.mark(&input));
        self.units.mark(&Input::Object(key.clone()));
        if is_proxy(key) {
            self.proxy_changed(key, new);
        }
        let own = match old.or(new).map(|object| &object.body) {
            Some(Body::GatewayClass(_)) => Some(Unit::Class(key.clone())),
            Some(Body::Gateway(_)) => Some(Unit::Gateway(key.clone())),
            Some(Body::ListenerSet(_)) => Some(Unit::Set(key.clone())),
            Some(body) if body.route().is_some() => Some(Unit::Claims(key.clone())),
            Some(Body::ExtensionService(_)) => Some(Unit::Extension(key.clone())),
            Some(Body::TrafficPolicy(_) | Body::ListenerPolicy(_)) => Some(Unit::Policy(key.clone())),
            Some(Body::BackendConfigPolicy(_) | Body::BackendTlsPolicy(_) | Body::Backend(_)) => {
                Some(Unit::Backend(key.clone()))
            }
            _ => None,
        };
        if let Some(unit) = own {
            if matches!(unit, Unit::Claims(_)) {
                self.units.schedule(Unit::Route(key.clone()));
            }
            self.units.schedule(unit);
        }
    }

    /// Sets the addresses on which other processes of the host listen. Returns whether any unit must be translated.
    pub fn set_taken_ports(&mut self, taken: BTreeMap<SocketAddr, Arc<str>>) -> bool {
        self.indexes.set_taken(taken).into_iter().for_each(|port| self.units.mark(&Input::Port(port)));
        self.units.is_dirty()
    }

    /// Sets the time, in seconds of Unix time. Returns whether any unit must be translated because a date has passed.
    pub fn set_time(&mut self, now: i64) -> bool {
        let come = self.dates.set(now);
        come.into_iter().for_each(|time| self.units.mark(&Input::Date(time)));
        self.units.is_dirty()
    }

    /// Returns how often a date passed that changes an outcome without an edit.
    pub fn dates_passed(&self) -> u64 {
        self.dates.passed()
    }

    /// Translates all dirty units and returns the changes. Writes the edges into the graph.
    pub fn translate(&mut self, objects: &ObjectSnapshot, graph: &mut Graph) -> Changes {
        let mut changes = Changes::default();
        let mut run = Run { objects, graph, changes: &mut changes };
        while let Some(unit) = self.units.next() {
            self.redo(&unit, &mut run);
        }
        changes.fleets = self.assembly.finish();
        changes.endpoints = self.assembly.take_kept_changes();
        changes
    }

    fn redo(&mut self, unit: &Unit, run: &mut Run<'_>) {
        visits::objects(1);
        match unit {
            Unit::Class(key) => self.redo_class(unit, key, run),
            Unit::Gateway(key) => self.redo_gateway(unit, key, run),
            Unit::Claims(key) => self.redo_claims(unit, key, run),
            Unit::Set(key) => self.redo_object(unit, key, run, listener_set::claim, listener_set::failed),
            Unit::Host(key) => self.redo_host(unit, key, run),
            Unit::Route(key) if is_proxy(key) => self.redo_root(unit, key, run),
            Unit::Route(key) => self.redo_route(unit, key, run),
            Unit::Extension(key) => self.redo_extension(unit, key, run),
            Unit::Policy(key) => self.redo_object(unit, key, run, policy::plan, policy::failed),
            Unit::Levels(key) => self.redo_levels(unit, key, run),
            Unit::Backend(key) => self.redo_backend(unit, key, run),
            Unit::LevelsVariant(fleet) => self.redo_levels_variant(unit, fleet, run.objects),
            Unit::GatewayVariant(fleet) => self.redo_gateway_variant(unit, fleet, run.objects),
            Unit::RouteVariant(fleet, key) => {
                run.changes.stand_ins.insert(fleet.gateway.clone());
                self.redo_route_variant(unit, fleet, key, run.objects);
            }
            Unit::Endpoints(service) => self.redo_endpoints(unit, service, run.objects),
            Unit::Secret(key) => self.redo_secret(unit, key, run.objects),
        }
    }

    /// Translates an object on its own, and stores its outcome. `failed` returns the outcome after failed translation,
    /// made from the previous one.
    fn redo_object<T: Outcome>(
        &mut self,
        unit: &Unit,
        key: &ObjectKey,
        run: &mut Run<'_>,
        read: impl FnOnce(&ObjectKey, &Settings, &mut Reader<'_>) -> Option<T>,
        failed: impl FnOnce(&Object, Option<&T>) -> T,
    ) {
        let (outcome, edges) = self.read(unit, run.objects, |settings, reader| read(key, settings, reader));
        let before = T::of(&self.outcomes, key).cloned();
        let failed = || run.objects.get(key).map(|object| failed(object, before.as_deref()));
        run.graph.replace(key, edges);
        self.set_outcome(unit, key, outcome.unwrap_or_else(failed));
    }

    /// Stores the outcome of a unit and marks its readers. Returns whether the outcome changed.
    fn set_outcome<T: Outcome>(&mut self, unit: &Unit, key: &ObjectKey, outcome: Option<T>) -> bool {
        if outcome.is_none() {
            self.units.forget(unit);
        }
        let is_changed = T::of(&self.outcomes, key).map(|known| &**known) != outcome.as_ref();
        if is_changed {
            T::set(&mut self.outcomes, key, outcome.map(Arc::new));
            self.units.mark(&Input::Outcome(key.clone()));
        }
        is_changed
    }

    /// Runs a piece of translation and records its reads. Returns `None` as its result if the piece panics.
    fn read<T>(
        &mut self,
        unit: &Unit,
        objects: &ObjectSnapshot,
        piece: impl FnOnce(&Settings, &mut Reader<'_>) -> T,
    ) -> (Option<T>, Vec<Edge>) {
        self.read_over(unit, None, objects, piece)
    }

    /// Runs a piece of translation as `read` does, with the object versions of an overlay.
    pub(crate) fn read_over<T>(
        &mut self,
        unit: &Unit,
        over: Option<&Overlay>,
        objects: &ObjectSnapshot,
        piece: impl FnOnce(&Settings, &mut Reader<'_>) -> T,
    ) -> (Option<T>, Vec<Edge>) {
        let mut reader = self.reader(over, objects);
        let outcome = guard::guarded(|| {
            #[cfg(test)]
            guard::poison(reader.object(unit.subject()).map(|object| &**object));
            piece(&self.settings, &mut reader)
        });
        let Reader { reads, edges, .. } = reader;
        let dates = reads.iter().filter_map(|read| if let Input::Date(time) = read { Some(*time) } else { None });
        dates.for_each(|time| self.dates.wait_for(time));
        self.units.record(unit, reads);
        (outcome, edges)
    }

    pub(crate) fn reader<'a>(&'a self, over: Option<&'a Overlay>, objects: &'a ObjectSnapshot) -> Reader<'a> {
        Reader {
            settings: &self.settings,
            objects,
            over,
            indexes: &self.indexes,
            dates: &self.dates,
            outcomes: &self.outcomes,
            reads: Vec::new(),
            edges: Vec::new(),
        }
    }
}
