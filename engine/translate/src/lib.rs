//! Translation of objects to the resources of each Gateway, incremental.
//!
//! Translation consists of pure functions. Each read of a function is recorded, so a changed object repeats only the
//! functions that read it, and the repetition stops where an outcome equals the last one. The outcome depends only on
//! the objects, never on the order of events: a test compares it with a translation from scratch.
//!
//! Stages, each of which reads only earlier ones: Gateway → claims of routes → routes → hosts and tables of each fleet.
//! Endpoints and certificates are updated beside these stages.

// Contents of policies (`policy/setting.rs`) are keys of sets; values that they compute on first use do
// not affect their order.
#![allow(clippy::mutable_key_type)]

mod backend;
pub mod chain_units;
mod chains;
pub mod claims;
pub mod cluster_policy;
mod conditions;
mod conflicts;
pub mod duplicates;
mod endpoints;
mod filters;
pub mod fleet;
pub mod gateway;
mod grpc;
mod guard;
mod http;
pub mod infrastructure;
mod kept;
pub mod listener;
mod narrow;
mod narrow_calls;
pub mod overlay;
mod parents;
pub mod policies;
pub mod policy;
mod ports;
pub mod provision;
pub mod proxies;
pub mod proxy;
mod queries;
pub mod reader;
pub mod route;
pub mod rule;
pub mod sets;
mod today;
mod update;
mod uses;
mod variant;
mod view;
mod weighted;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use claims::Claims;
use cluster_policy::plan::BackendPlan;
use fleet::{Fleet, FleetId};
use gateway::GatewayPlan;
use holdfast_api::apis::Body;
use holdfast_api::fault::Fault;
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_envoy::model::ServicePort;
use holdfast_graph::{Edge, Graph, ObjectKey};
use holdfast_xds::{Resource, Snapshot};
use overlay::Overlay;
use policy::PolicyPlan;
use policy::level::LevelPlan;
use proxy::host::HostClaim;
use proxy::neighbours::Claimants;
use reader::{Indexes, Input, LentHostnames, Reader, Rivals};
use route::RoutePlan;
use sets::SetClaim;
use variant::Variants;

use crate::proxies::finding::Finding;

/// Unit of translation, translated as a whole; the order of the enum is that of the stages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Unit {
    /// A TrafficPolicy or ListenerPolicy, independent of its targets.
    Policy(ObjectKey),
    /// The claim of a root HTTPProxy.
    Host(ObjectKey),
    /// The claim of a ListenerSet.
    Set(ObjectKey),
    Gateway(ObjectKey),
    /// The policy settings of a Gateway and its listeners.
    Levels(ObjectKey),
    /// The policy settings of a Gateway for one fleet, where they differ from the desired ones.
    LevelsVariant(FleetId),
    /// A Gateway for one fleet, where it differs from the desired one.
    GatewayVariant(FleetId),
    Claims(ObjectKey),
    Route(ObjectKey),
    /// A route for one fleet, where it differs from the desired one.
    RouteVariant(FleetId, ObjectKey),
    Endpoints(ServicePort),
    Secret(ObjectKey),
    /// The findings about an ExtensionService.
    Extension(ObjectKey),
    /// The report on a backend policy or Backend.
    Backend(ObjectKey),
    /// The data plane parameters of a GatewayClass.
    Class(ObjectKey),
}

/// State of translation.
#[derive(Debug)]
pub struct Translator {
    settings: Settings,
    indexes: Indexes,
    plans: HashMap<ObjectKey, Arc<GatewayPlan>>,
    /// Faults of Gateways that are not served.
    unserved_gateways: BTreeMap<ObjectKey, Fault>,
    /// Faults of the GatewayClasses of this controller.
    classes: BTreeMap<ObjectKey, Fault>,
    claims: HashMap<ObjectKey, Arc<Claims>>,
    routes: HashMap<ObjectKey, Arc<RoutePlan>>,
    rivals: Rivals,
    claimants: Claimants,
    endpoints: HashMap<ServicePort, Arc<Resource>>,
    endpoint_faults: BTreeMap<ServicePort, Vec<Fault>>,
    /// Ports of Services with endpoints that are kept for a fleet although its configuration no longer uses them.
    kept: BTreeMap<FleetId, BTreeSet<ServicePort>>,
    /// Gateways for which kept endpoints changed.
    kept_changed: BTreeSet<ObjectKey>,
    /// Ports of Services that are used and have no endpoint.
    empty_services: BTreeSet<ServicePort>,
    secrets: HashMap<ObjectKey, Arc<Resource>>,
    fleets: BTreeMap<FleetId, Fleet>,
    variants: Variants,
    /// Claims of root HTTPProxies.
    hosts: BTreeMap<ObjectKey, Arc<HostClaim>>,
    policies: HashMap<ObjectKey, Arc<PolicyPlan>>,
    /// Claims of ListenerSets, each read on its own.
    sets: BTreeMap<ObjectKey, Arc<SetClaim>>,
    /// Reports on backend policies and Backends.
    backends: BTreeMap<ObjectKey, Arc<BackendPlan>>,
    /// Policy settings of Gateways; Gateways without any are omitted.
    levels: BTreeMap<ObjectKey, Arc<LevelPlan>>,
    /// Edges of Gateways: those that a Gateway reads itself, and those that its policies read.
    gateway_edges: HashMap<ObjectKey, (Vec<Edge>, Vec<Edge>)>,
    /// HTTPProxies that are not roots.
    children: BTreeSet<ObjectKey>,
    /// Root HTTPProxies that contain each HTTPProxy in their include tree.
    included: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The part of the plans of its roots that belongs to each HTTPProxy.
    shares: BTreeMap<ObjectKey, Arc<RoutePlan>>,
    /// Findings about each ExtensionService.
    extensions: BTreeMap<ObjectKey, Vec<Finding>>,
    /// Routes with at least one rule that is not served as written.
    replaced_routes: BTreeSet<ObjectKey>,
    /// Routes with an unusable hostname.
    unclaimed_routes: BTreeSet<ObjectKey>,
    /// Hostnames of last valid versions, for listeners with an unusable hostname as written.
    lent: HashMap<ObjectKey, LentHostnames>,
    readers: HashMap<Input, HashSet<Unit>>,
    reads: HashMap<Unit, Vec<Input>>,
    dirty: BTreeSet<Unit>,
    touched: BTreeSet<FleetId>,
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
        self.endpoints.extend(later.endpoints);
    }
}

impl Translator {
    /// Creates a translator without objects.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            indexes: Indexes::default(),
            plans: HashMap::new(),
            unserved_gateways: BTreeMap::new(),
            classes: BTreeMap::new(),
            claims: HashMap::new(),
            routes: HashMap::new(),
            rivals: Rivals::new(),
            claimants: Claimants::new(),
            endpoints: HashMap::new(),
            kept: BTreeMap::new(),
            kept_changed: BTreeSet::new(),
            empty_services: BTreeSet::new(),
            endpoint_faults: BTreeMap::new(),
            secrets: HashMap::new(),
            fleets: BTreeMap::new(),
            variants: Variants::default(),
            hosts: BTreeMap::new(),
            policies: HashMap::new(),
            sets: BTreeMap::new(),
            backends: BTreeMap::new(),
            levels: BTreeMap::new(),
            gateway_edges: HashMap::new(),
            children: BTreeSet::new(),
            included: BTreeMap::new(),
            shares: BTreeMap::new(),
            extensions: BTreeMap::new(),
            replaced_routes: BTreeSet::new(),
            unclaimed_routes: BTreeSet::new(),
            lent: HashMap::new(),
            readers: HashMap::new(),
            reads: HashMap::new(),
            dirty: BTreeSet::new(),
            touched: BTreeSet::new(),
        }
    }

    /// Records a change of an object from `old` to `new`; `None` means that the object does not exist.
    pub fn changed(&mut self, key: &ObjectKey, old: Option<&Object>, new: Option<&Object>) {
        let left = old.map(|object| self.indexes.update(object, false)).unwrap_or_default();
        let entered = new.map(|object| self.indexes.update(object, true)).unwrap_or_default();
        left.into_iter().chain(entered).for_each(|input| self.mark(&input));
        self.mark(&Input::Object(key.clone()));
        if proxy::is_proxy(key) {
            self.proxy_changed(key, new);
        }
        let own = match old.or(new).map(|object| &object.body) {
            Some(Body::GatewayClass(_)) => Some(Unit::Class(key.clone())),
            Some(Body::Gateway(_)) => Some(Unit::Gateway(key.clone())),
            Some(Body::ListenerSet(_)) => Some(Unit::Set(key.clone())),
            Some(Body::HttpRoute(_) | Body::GrpcRoute(_)) => Some(Unit::Claims(key.clone())),
            Some(Body::ExtensionService(_)) => Some(Unit::Extension(key.clone())),
            Some(Body::TrafficPolicy(_) | Body::ListenerPolicy(_)) => Some(Unit::Policy(key.clone())),
            Some(Body::BackendConfigPolicy(_) | Body::BackendTlsPolicy(_) | Body::Backend(_)) => {
                Some(Unit::Backend(key.clone()))
            }
            _ => None,
        };
        if let Some(unit) = own {
            if matches!(unit, Unit::Claims(_)) {
                self.dirty.insert(Unit::Route(key.clone()));
            }
            self.dirty.insert(unit);
        }
    }

    /// Sets the addresses on which other processes of the host listen. Returns whether any unit must be translated.
    pub fn set_taken_ports(&mut self, taken: BTreeMap<SocketAddr, Arc<str>>) -> bool {
        if self.indexes.set_taken(taken) {
            self.mark(&Input::Gateways);
        }
        !self.dirty.is_empty()
    }

    fn mark(&mut self, input: &Input) {
        if let Some(readers) = self.readers.get(input) {
            self.dirty.extend(readers.iter().cloned());
        }
    }

    /// Translates all dirty units and returns the changes. Writes the edges into the graph.
    pub fn translate(&mut self, objects: &ObjectSnapshot, graph: &mut Graph) -> Changes {
        let mut changes = Changes::default();
        while let Some(unit) = self.dirty.pop_first() {
            self.redo(&unit, objects, graph, &mut changes);
        }
        for key in std::mem::take(&mut self.touched) {
            let Some(fleet) = self.fleets.get_mut(&key) else { continue };
            fleet.finish(&self.endpoints, &self.secrets);
            if fleet.take_changed() {
                changes.fleets.push((key, fleet.snapshot().clone()));
            }
        }
        changes.endpoints = std::mem::take(&mut self.kept_changed);
        changes
    }

    fn redo(&mut self, unit: &Unit, objects: &ObjectSnapshot, graph: &mut Graph, changes: &mut Changes) {
        match unit {
            Unit::Policy(key) => {
                let (plan, edges) = self.read(unit, objects, |settings, reader| policy::plan(key, settings, reader));
                let plan = plan.unwrap_or_else(|| objects.get(key).map(|object| policy::failed(object)));
                graph.replace(key, edges);
                self.set_policy(key, plan);
            }
            Unit::Levels(key) => {
                let (plan, edges) = self.read(unit, objects, |_, reader| policy::level::plan(key, reader));
                // Translation failed: the last settings stay in force.
                let Some(plan) = plan else { return };
                changes.gateways.insert(key.clone());
                self.set_levels(key, plan);
                self.gateway_edges.entry(key.clone()).or_default().1 = edges;
                self.link_gateway(key, graph);
            }
            Unit::Host(key) => {
                let (claim, edges) =
                    self.read(unit, objects, |settings, reader| proxy::host::claim(key, settings, reader));
                let claim = match claim {
                    Some(claim) => claim.map(|claim| HostClaim { edges, ..claim }),
                    None => proxy::host::failed(key, self.hosts.get(key).map(|claim| &**claim)),
                };
                // The certificate of the claim belongs to the listeners, so the Gateway of HTTPProxies counts as
                // translated even if the claim is unchanged.
                changes.gateways.insert(proxy::listeners::gateway(&self.settings));
                self.set_host(key, claim);
            }
            Unit::Set(key) => {
                let (claim, edges) = self.read(unit, objects, |settings, reader| sets::claim(key, settings, reader));
                let before = self.sets.get(key).cloned();
                let failed = || objects.get(key).map(|object| sets::failed(object, before.as_deref()));
                graph.replace(key, edges);
                self.set_set(key, claim.unwrap_or_else(failed));
            }
            Unit::Gateway(key) => {
                let before = self.plans.get(key).cloned();
                let (seen, edges) = self.read(unit, objects, |settings, reader| gateway::plan(key, settings, reader));
                let seen = seen.unwrap_or_else(|| gateway::failed(key, before.as_deref()));
                self.gateway_edges.entry(key.clone()).or_default().0 = edges;
                self.link_gateway(key, graph);
                let (plan, not_served) = match seen {
                    gateway::Outcome::Served(plan) => (Some(Arc::new(plan)), None),
                    gateway::Outcome::NotServed(fault) => (None, Some(fault)),
                    gateway::Outcome::None => (None, None),
                };
                changes.gateways.insert(key.clone());
                self.set_plan(key, plan, changes);
                match not_served {
                    Some(fault) => self.unserved_gateways.insert(key.clone(), fault),
                    None => self.unserved_gateways.remove(key),
                };
                if objects.get(key).is_none() && *key != proxy::listeners::key() {
                    self.forget(unit);
                }
            }
            Unit::Claims(key) => {
                let (claims, edges) =
                    self.read(unit, objects, |settings, reader| claims::claims(key, settings, reader));
                let before = self.claims.get(key);
                let claims = claims.unwrap_or_else(|| Some(claims::failed(key, before.map(|claims| &**claims))));
                let age = objects.get(key).map(|object| object.age());
                self.set_claims(key, claims.zip(age).map(|(claims, age)| (Claims { edges, ..claims }, age)));
            }
            Unit::Route(key) if proxy::is_proxy(key) => self.redo_proxy(unit, key, objects, graph, changes),
            Unit::Route(key) => {
                let claims = self.claims.get(key).cloned();
                let (plan, mut edges) = self.read(unit, objects, |settings, reader| {
                    let desired = route::Closed::new();
                    claims.as_ref().and_then(|claims| route::plan(key, claims, &desired, settings, reader))
                });
                let plan = plan.unwrap_or_else(|| {
                    let object = objects.get(key)?;
                    Some(route::failed(object, claims.as_deref()?, &self.settings))
                });
                edges.extend(claims.iter().flat_map(|claims| claims.edges.iter().cloned()));
                graph.replace(key, edges);
                changes.routes.insert(key.clone());
                let before = self.routes.get(key).map(|plan| plan.gateways()).unwrap_or_default();
                let after = plan.as_ref().map(RoutePlan::gateways).unwrap_or_default();
                changes.gateways.extend(before.difference(&after).map(|gateway| (*gateway).clone()));
                self.set_route(key, plan.map(Arc::new));
            }
            Unit::LevelsVariant(fleet) => self.redo_levels_variant(unit, fleet, objects),
            Unit::GatewayVariant(fleet) => self.redo_gateway_variant(unit, fleet, objects),
            Unit::RouteVariant(fleet, key) => self.redo_route_variant(unit, fleet, key, objects),
            Unit::Endpoints(service) => {
                let read =
                    |settings: &Settings, reader: &mut Reader<'_>| endpoints::endpoints(service, settings, reader);
                let over = self.stand_in(&service.key, objects);
                let (read, _) = self.read_over(unit, over.as_deref(), objects, read);
                // Translation failed: the served endpoints stay.
                let Some((resource, faults)) = read else { return };
                self.set_endpoints(service, Arc::new(resource), faults);
            }
            Unit::Extension(key) => {
                let (read, edges) = self.read(unit, objects, |_, reader| proxy::extension::read(key, reader));
                graph.replace(key, edges);
                let failed = || vec![Finding::error(key, "", "SpecError", "InternalError", guard::fault(key).message)];
                match read {
                    Some(Some(extension)) => drop(self.extensions.insert(key.clone(), extension.findings)),
                    Some(None) => {
                        self.extensions.remove(key);
                        self.forget(unit);
                    }
                    None => drop(self.extensions.insert(key.clone(), failed())),
                }
            }
            Unit::Backend(key) => {
                let (plan, edges) = self.read(unit, objects, |_, reader| cluster_policy::plan::plan(key, reader));
                let failed = || objects.get(key).map(|_| cluster_policy::plan::failed(key));
                graph.replace(key, edges);
                match plan.unwrap_or_else(failed) {
                    Some(plan) => drop(self.backends.insert(key.clone(), Arc::new(plan))),
                    None => {
                        self.backends.remove(key);
                        self.forget(unit);
                    }
                }
            }
            Unit::Class(key) => {
                let (fault, edges) =
                    self.read(unit, objects, |settings, reader| infrastructure::flawed(key, settings, reader));
                graph.replace(key, edges);
                match fault.unwrap_or_else(|| Some(guard::fault(key))) {
                    Some(fault) => drop(self.classes.insert(key.clone(), fault)),
                    None => drop(self.classes.remove(key)),
                }
                if objects.get(key).is_none() {
                    self.forget(unit);
                }
            }
            Unit::Secret(key) => {
                let (resource, _) = self.read(unit, objects, |_, reader| endpoints::secret(key, reader));
                self.set_secret(key, resource.flatten().map(Arc::new));
            }
        }
    }

    fn link_gateway(&mut self, key: &ObjectKey, graph: &mut Graph) {
        let Some((own, of_policies)) = self.gateway_edges.get(key) else { return };
        let all: Vec<Edge> = own.iter().chain(of_policies).cloned().collect();
        if all.is_empty() {
            self.gateway_edges.remove(key);
        }
        graph.replace(key, all);
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
    fn read_over<T>(
        &mut self,
        unit: &Unit,
        over: Option<&Overlay>,
        objects: &ObjectSnapshot,
        piece: impl FnOnce(&Settings, &mut Reader<'_>) -> T,
    ) -> (Option<T>, Vec<Edge>) {
        let mut reader = self.reader(over, objects);
        let outcome = guard::guarded(|| {
            #[cfg(any(test, feature = "testing"))]
            guard::poison(reader.object(guard::subject(unit)).map(|object| &**object));
            piece(&self.settings, &mut reader)
        });
        let Reader { reads, edges, .. } = reader;
        self.record(unit, reads);
        (outcome, edges)
    }

    fn reader<'a>(&'a self, over: Option<&'a Overlay>, objects: &'a ObjectSnapshot) -> Reader<'a> {
        Reader {
            settings: &self.settings,
            objects,
            over,
            indexes: &self.indexes,
            plans: &self.plans,
            rivals: &self.rivals,
            claimants: &self.claimants,
            hosts: &self.hosts,
            policies: &self.policies,
            listener_sets: &self.sets,
            lent: &self.lent,
            reads: Vec::new(),
            edges: Vec::new(),
        }
    }

    fn record(&mut self, unit: &Unit, mut reads: Vec<Input>) {
        reads.sort_unstable();
        reads.dedup();
        if self.reads.get(unit).is_some_and(|old| *old == reads) {
            return;
        }
        self.forget(unit);
        for input in &reads {
            self.readers.entry(input.clone()).or_default().insert(unit.clone());
        }
        self.reads.insert(unit.clone(), reads);
    }

    /// Removes the recorded reads of a unit that is no longer needed.
    fn forget(&mut self, unit: &Unit) {
        for input in self.reads.remove(unit).unwrap_or_default() {
            if let Some(readers) = self.readers.get_mut(&input) {
                readers.remove(unit);
                if readers.is_empty() {
                    self.readers.remove(&input);
                }
            }
        }
    }
}
