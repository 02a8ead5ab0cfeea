//! Translation: from objects to the resources of each Gateway, incrementally.
//!
//! It is made of pure functions over what they read. What each of them read is recorded, so that a change of an object
//! does again only what looked at it, and stops where the outcome is the same as before. The outcome depends on the
//! objects only, never on the order in which they came: a test compares with a translation from scratch.
//!
//! Stages, each reading only earlier ones: Gateway → claims of routes → routes → hosts and tables of each fleet;
//! endpoints and certificates beside them.

mod asked;
mod backend;
pub(crate) mod chain_units;
mod chains;
pub(crate) mod claims;
pub(crate) mod cluster_policy;
mod conditions;
mod conflicts;
pub(crate) mod duplicates;
mod endpoints;
mod filters;
pub(crate) mod fleet;
pub(crate) mod gateway;
mod grpc;
mod guard;
mod http;
pub(crate) mod infrastructure;
mod kept;
pub(crate) mod listener;
mod narrow;
mod narrow_calls;
pub(crate) mod overlay;
mod parents;
pub(crate) mod policy;
mod ports;
pub(crate) mod proxy;
pub(crate) mod reader;
pub(crate) mod route;
pub(crate) mod rule;
pub(crate) mod sets;
pub(crate) mod table;
mod today;
mod update;
mod uses;
mod variant;
mod view;
mod weighted;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use holdfast_graph::{Edge, Graph, ObjectKey};
use holdfast_xds::{Resource, Snapshot};

use crate::apis::Body;
use crate::fault::Fault;
use crate::model::ServicePort;
use crate::object::Object;
use crate::proxies::finding::Finding;
use crate::settings::Settings;
use crate::snapshot::ObjectSnapshot;

use claims::Claims;
use cluster_policy::plan::BackEndPlan;
use fleet::{Fleet, FleetId};
use gateway::GatewayPlan;
use overlay::Overlay;
use policy::PolicyPlan;
use policy::level::LevelPlan;
use proxy::host::HostClaim;
use proxy::neighbours::Claimants;
use reader::{Indexes, Input, LentHostnames, Reader, Rivals};
use route::RoutePlan;
use sets::SetClaim;
use variant::Variants;

/// A piece of translation that is done again as a whole, in the order of stages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Unit {
    /// A policy, whatever it is attached to.
    Policy(ObjectKey),
    /// What a root HTTPProxy claims.
    Host(ObjectKey),
    /// What a ListenerSet asks for.
    Set(ObjectKey),
    Gateway(ObjectKey),
    /// What policies say to a Gateway and its listeners.
    Levels(ObjectKey),
    /// The same as one fleet is served it, where that is not as desired.
    LevelsVariant(FleetId),
    /// A Gateway as one fleet is served it, where that is not as desired.
    GatewayVariant(FleetId),
    Claims(ObjectKey),
    Route(ObjectKey),
    /// A route as one fleet is served it, where that is not as desired.
    RouteVariant(FleetId, ObjectKey),
    Endpoints(ServicePort),
    Secret(ObjectKey),
    /// What is wrong with an ExtensionService.
    Extension(ObjectKey),
    /// What is told of a policy of back ends, or of a Backend.
    BackEnd(ObjectKey),
    /// What a GatewayClass says of data planes.
    Class(ObjectKey),
}

/// All of translation's memory.
#[derive(Debug)]
pub(crate) struct Translator {
    settings: Settings,
    indexes: Indexes,
    plans: HashMap<ObjectKey, Arc<GatewayPlan>>,
    /// What is told of Gateways that nobody serves.
    strays: BTreeMap<ObjectKey, Fault>,
    /// What is wrong with classes of ours.
    classes: BTreeMap<ObjectKey, Fault>,
    claims: HashMap<ObjectKey, Arc<Claims>>,
    routes: HashMap<ObjectKey, Arc<RoutePlan>>,
    rivals: Rivals,
    claimants: Claimants,
    endpoints: HashMap<ServicePort, Arc<Resource>>,
    endpoint_faults: BTreeMap<ServicePort, Vec<Fault>>,
    /// What fleets have endpoints of that their configuration no longer uses.
    kept: BTreeMap<FleetId, BTreeSet<ServicePort>>,
    /// The Gateways of those of which such endpoints changed.
    kept_changed: BTreeSet<ObjectKey>,
    /// The ports of Services that are used and have no endpoint.
    empty_services: BTreeSet<ServicePort>,
    secrets: HashMap<ObjectKey, Arc<Resource>>,
    fleets: BTreeMap<FleetId, Fleet>,
    variants: Variants,
    /// What root HTTPProxies claim.
    hosts: BTreeMap<ObjectKey, Arc<HostClaim>>,
    policies: HashMap<ObjectKey, Arc<PolicyPlan>>,
    /// What ListenerSets ask for, each for itself.
    sets: BTreeMap<ObjectKey, Arc<SetClaim>>,
    /// What is told of policies of back ends, and of Backends.
    back_ends: BTreeMap<ObjectKey, Arc<BackEndPlan>>,
    /// What policies say to Gateways, where they say something.
    levels: BTreeMap<ObjectKey, Arc<LevelPlan>>,
    /// What Gateways read themselves, and on behalf of their policies.
    gateway_edges: HashMap<ObjectKey, (Vec<Edge>, Vec<Edge>)>,
    /// HTTPProxies that are no roots.
    children: BTreeSet<ObjectKey>,
    /// The roots that each HTTPProxy takes part in.
    included: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// What of the plans of its roots is each HTTPProxy's own.
    shares: BTreeMap<ObjectKey, Arc<RoutePlan>>,
    /// What was found out about each ExtensionService.
    extensions: BTreeMap<ObjectKey, Vec<Finding>>,
    /// Routes of which a rule is served otherwise than it is written.
    replaced_routes: BTreeSet<ObjectKey>,
    /// Routes with a hostname that cannot be used.
    unclaimed_routes: BTreeSet<ObjectKey>,
    /// Hostnames that listeners have from an earlier version, where they can.
    lent: HashMap<ObjectKey, LentHostnames>,
    readers: HashMap<Input, HashSet<Unit>>,
    reads: HashMap<Unit, Vec<Input>>,
    dirty: BTreeSet<Unit>,
    touched: BTreeSet<FleetId>,
}

/// What a translation changed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Gateways with something new for their Envoys.
    pub(crate) fleets: Vec<(FleetId, Snapshot)>,
    /// Gateways that are gone.
    pub(crate) withdrawn: Vec<ObjectKey>,
    /// Gateways that were translated again, and those that a route has left.
    pub(crate) gateways: BTreeSet<ObjectKey>,
    /// Routes that were translated again, whether or not that changed anything.
    pub(crate) routes: BTreeSet<ObjectKey>,
    /// Gateways of which endpoints changed that only an earlier configuration uses.
    pub(crate) endpoints: BTreeSet<ObjectKey>,
}

impl Changes {
    /// Adds those of a translation that came after.
    pub(crate) fn add(&mut self, later: Changes) {
        self.fleets.extend(later.fleets);
        self.withdrawn.extend(later.withdrawn);
        self.gateways.extend(later.gateways);
        self.routes.extend(later.routes);
        self.endpoints.extend(later.endpoints);
    }
}

impl Translator {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            indexes: Indexes::default(),
            plans: HashMap::new(),
            strays: BTreeMap::new(),
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
            back_ends: BTreeMap::new(),
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

    /// An object changed from `old` to `new`; one of them may be missing.
    pub(crate) fn changed(&mut self, key: &ObjectKey, old: Option<&Object>, new: Option<&Object>) {
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
                Some(Unit::BackEnd(key.clone()))
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

    /// Sets the addresses on which other processes of the host listen. True where anything is to be translated again.
    pub(crate) fn set_taken_ports(&mut self, taken: BTreeMap<SocketAddr, Arc<str>>) -> bool {
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

    /// Does again what the changes ask for; says what came of it. Edges go into the graph.
    pub(crate) fn translate(&mut self, objects: &ObjectSnapshot, graph: &mut Graph) -> Changes {
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
                // What is said stays said.
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
                // What it says of its certificate is a matter of the listeners, also where the claim is the same.
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
                let (plan, stray) = match seen {
                    gateway::Outcome::Served(plan) => (Some(Arc::new(plan)), None),
                    gateway::Outcome::Stray(fault) => (None, Some(fault)),
                    gateway::Outcome::None => (None, None),
                };
                changes.gateways.insert(key.clone());
                self.set_plan(key, plan, changes);
                match stray {
                    Some(fault) => self.strays.insert(key.clone(), fault),
                    None => self.strays.remove(key),
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
                // What is served stays.
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
            Unit::BackEnd(key) => {
                let (plan, edges) = self.read(unit, objects, |_, reader| cluster_policy::plan::plan(key, reader));
                let failed = || objects.get(key).map(|_| cluster_policy::plan::failed(key));
                graph.replace(key, edges);
                match plan.unwrap_or_else(failed) {
                    Some(plan) => drop(self.back_ends.insert(key.clone(), Arc::new(plan))),
                    None => {
                        self.back_ends.remove(key);
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

    /// Runs a piece of translation and records what it read; nothing comes of one that fails.
    fn read<T>(
        &mut self,
        unit: &Unit,
        objects: &ObjectSnapshot,
        piece: impl FnOnce(&Settings, &mut Reader<'_>) -> T,
    ) -> (Option<T>, Vec<Edge>) {
        self.read_over(unit, None, objects, piece)
    }

    /// The same, where some objects are read in another version.
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
            asked_sets: &self.sets,
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

    /// Nobody asks for a piece any more.
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

#[cfg(test)]
mod tests;
