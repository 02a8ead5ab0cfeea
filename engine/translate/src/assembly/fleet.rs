//! Resources of one Gateway's Envoys, updated in parts: a change of one route costs only that route, its hosts and
//! their tables.

mod blocks;
pub(crate) mod clients;
pub mod connections;
mod host;
mod levels;
mod placed;
mod remotes;
pub(crate) mod streams;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use clients::Open;
use holdfast_envoy::encode::route::everything;
use holdfast_envoy::encode::route_configuration::{EncodedHosts, EncodedRoutes, route_configuration, virtual_host};
use holdfast_envoy::encode::{self, names};
use holdfast_envoy::features::chain::ChainFilter;
use holdfast_envoy::features::filters::Filters;
use holdfast_envoy::features::guards::Guards;
use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_envoy::features::remote::Remote;
use holdfast_envoy::features::upstream::ClientIdentity;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_envoy::model::{BackendCluster, FixedResponse, HostSettings, ServicePort};
use holdfast_graph::{Content, Node, ObjectKey, Origins, visits};
use holdfast_xds::{Resource, ResourceType, Snapshot, Version};
use imbl::OrdMap;
pub use levels::GatewayGuards;

use self::blocks::HostBlocks;
use self::host::{Base, HostState};
use self::placed::PlacedRoute;
use self::streams::{StreamTable, Streams};
use super::lost_matches::{LostMatches, lost_matches};
use super::{chains, placeholders, ports};
use crate::outcome::gateway::GatewayPlan;
use crate::outcome::listener::{ListenerPlan, ListenerState};
use crate::outcome::route::{Rendered, RoutePlace as Place, RoutePlan};
use crate::policy::connections::Connections;
use crate::policy::level::{LevelPlan, Scope};

/// The status of a request for a host of another listener: the connection does not serve that host.
///
/// <https://www.rfc-editor.org/rfc/rfc9110#name-421-misdirected-request>
const MISDIRECTED: u16 = 421;

/// Identity of one of the configurations that a Gateway's Envoys may get. They differ in the versions of objects that
/// are served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetId {
    /// The Gateway.
    pub gateway: ObjectKey,
    /// The label of the configuration; empty for the main one, which every Gateway has.
    pub label: Arc<str>,
}

impl FleetId {
    /// Returns the main configuration, which every Gateway has.
    pub fn main(gateway: &ObjectKey) -> Self {
        Self { gateway: gateway.clone(), label: "".into() }
    }
}

/// The routes of a host in order, each with the hash of its bytes.
pub type Parts = Arc<[(Content, Arc<Rendered>)]>;

/// The parts of a route configuration, by host. Cloning is cheap; the cost of a comparison depends on the differences.
pub type Composition = OrdMap<Host, Parts>;

/// A route table.
#[derive(Clone, Debug)]
struct Table {
    context: ListenerContext,
    hosts: BTreeMap<Host, HostState>,
    blocks: HostBlocks,
    parts: Composition,
}

/// The resources of one Gateway.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    key: ObjectKey,
    plan: Arc<GatewayPlan>,
    levels: Arc<LevelPlan>,
    /// External services that the filters of Gateway and listener policies call.
    level_remotes: BTreeSet<Remote>,
    /// The response for everything that must not be served.
    closed: FixedResponse,
    tables: BTreeMap<TableName, Table>,
    backends: BTreeMap<BackendCluster, usize>,
    /// External services that filters call, other than backends of routes, with the route objects that require each.
    remotes: BTreeMap<Remote, BTreeSet<ObjectKey>>,
    services: BTreeMap<ServicePort, usize>,
    /// Services that are newly in use, and of which the endpoints may be known from another use.
    fresh_services: BTreeSet<ServicePort>,
    certificates: BTreeSet<ObjectKey>,
    /// Client certificates that are presented to backends, each with the number of clusters that use it.
    shown: BTreeMap<ObjectKey, usize>,
    /// CA certificates for the validation of client certificates.
    trusts: BTreeMap<Arc<str>, Arc<Resource>>,
    /// Secrets of the filters in its chains.
    filter_secrets: BTreeMap<Arc<str>, Arc<Resource>>,
    /// Certificates that are served in another version than the desired one.
    held_certificates: BTreeMap<ObjectKey, Arc<Resource>>,
    routes: BTreeMap<ObjectKey, Arc<RoutePlan>>,
    /// Routes of connections, by listener.
    streams: StreamTable,
    /// Tables of listeners that are closed because the required validation of client certificates is not available.
    unvalidated: BTreeSet<TableName>,
    /// Tables of listeners that do not use the validation context of a policy: they are closed, or their Gateway requires
    /// one.
    without_policy_validation: BTreeSet<TableName>,
    pub(crate) lost_matches: LostMatches,
    dirty_hosts: BTreeSet<(TableName, Host)>,
    dirty_tables: BTreeSet<TableName>,
    dirty_listeners: bool,
    snapshot: Snapshot,
    changed: bool,
}

impl Table {
    fn new(context: ListenerContext) -> Self {
        Self { context, hosts: BTreeMap::new(), blocks: HostBlocks::default(), parts: Composition::new() }
    }
}

impl Fleet {
    /// Returns the Gateway as served.
    pub(crate) fn plan(&self) -> &GatewayPlan {
        &self.plan
    }

    pub(crate) fn new(key: ObjectKey, plan: Arc<GatewayPlan>, closed: FixedResponse) -> Self {
        let mut fleet = Self {
            key,
            plan: plan.clone(),
            levels: Arc::default(),
            level_remotes: BTreeSet::new(),
            closed,
            tables: BTreeMap::new(),
            backends: BTreeMap::new(),
            remotes: BTreeMap::new(),
            services: BTreeMap::new(),
            fresh_services: BTreeSet::new(),
            certificates: BTreeSet::new(),
            shown: BTreeMap::new(),
            trusts: BTreeMap::new(),
            filter_secrets: BTreeMap::new(),
            held_certificates: BTreeMap::new(),
            routes: BTreeMap::new(),
            streams: StreamTable::default(),
            unvalidated: BTreeSet::new(),
            without_policy_validation: BTreeSet::new(),
            lost_matches: LostMatches::default(),
            dirty_hosts: BTreeSet::new(),
            dirty_tables: BTreeSet::new(),
            dirty_listeners: true,
            snapshot: Snapshot::default(),
            changed: true,
        };
        fleet.set_plan(plan);
        fleet
    }

    /// Returns the snapshot for its Envoys.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns whether anything changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Returns the parts of the named route configuration, and the listener context of their bytes.
    pub(crate) fn composition(&self, resource: &str) -> Option<(&Composition, ListenerContext)> {
        let table = self.tables.iter().find(|(name, _)| names::route_configuration(name) == resource);
        table.map(|(_, table)| (&table.parts, table.context))
    }

    /// Returns its hosts with their tables, each with its routes in order.
    pub(crate) fn hosts_in_order(&self) -> impl Iterator<Item = (&TableName, &Host, impl Iterator<Item = &Rendered>)> {
        let hosts = self.tables.iter().flat_map(|(name, table)| table.hosts.iter().map(move |host| (name, host)));
        hosts.map(|(name, (host, state))| (name, host, state.desired()))
    }

    /// Returns the number of routes of a route object, at each of its hosts.
    pub(crate) fn routes_at_hosts(&self, key: &ObjectKey) -> usize {
        let places = self.routes.get(key).into_iter().flat_map(|plan| &plan.places);
        let own: BTreeSet<_> = places.filter(|(gateway, _, _)| *gateway == self.key).collect();
        let hosts = own.into_iter().filter_map(|(_, table, host)| self.tables.get(table)?.hosts.get(host));
        hosts.flat_map(HostState::desired).filter(|rendered| rendered.route.key == *key).count()
    }

    /// Returns the routes of connections of a listener; none where a policy closes the listener.
    pub(crate) fn streams_at(&self, listener: &ListenerPlan) -> Option<&Streams> {
        let is_closed = self.is_closed_at(&Scope::Table(listener.table()));
        self.streams.at(listener).filter(|_| !is_closed)
    }

    /// Returns the units of the chains of a listener that forwards connections, by chain name.
    pub(crate) fn stream_units(&self, listener: &ListenerPlan) -> Vec<(String, Node)> {
        self.streams.units(listener)
    }

    /// Returns the contents of a route of connections at all its places.
    pub(crate) fn stream_contents(&self, plan: &RoutePlan, connections: &Connections) -> Vec<(Content, Node)> {
        streams::contents((&self.key, &self.plan), plan, connections)
    }

    /// Returns the contents of a route of connections at all its places, each with its server name.
    pub(crate) fn named_stream_contents(&self, plan: &RoutePlan) -> Vec<(Content, Node)> {
        let parts = streams::parts((&self.key, &self.plan), plan, &self.levels.connections);
        parts.into_iter().map(|(parts, node)| (parts.placed, node)).collect()
    }

    /// Returns the contents of a route object at all its places.
    pub(crate) fn contents(&self, plan: &RoutePlan) -> Vec<(Content, Node)> {
        let streams = self.stream_contents(plan, &self.levels.connections);
        in_order(self.contents_of(plan, |_| true).into_iter().chain(streams).chain(self.added(plan)))
    }

    /// Returns the contents of a route object at all its places under these policy settings of the Gateway.
    pub(crate) fn contents_under_levels(&self, plan: &RoutePlan, levels: &LevelPlan) -> Vec<(Content, Node)> {
        let placed = self.placed_under(plan, levels, Open::of(self));
        let contents = placed.map(|(_, context, served)| (served.encoded(context).1, served.node()));
        in_order(contents.chain(self.stream_contents(plan, &levels.connections)).chain(self.added(plan)))
    }

    /// Returns what an HTTPProxy adds to routes of this Gateway.
    fn added<'a>(&self, plan: &'a RoutePlan) -> impl Iterator<Item = (Content, Node)> + use<'a> {
        let is_here = plan.places.iter().any(|(gateway, _, _)| *gateway == self.key);
        let additions = plan.additions.iter().filter(move |_| is_here);
        additions.map(|setting| (setting.content(), setting.node()))
    }

    /// Returns the contents of the routes that a predicate selects.
    fn contents_of(&self, plan: &RoutePlan, wanted: impl Fn(&Rendered) -> bool) -> Vec<(Content, Node)> {
        let wanted = |served: &Rendered, _| wanted(served);
        self.parts_of(plan, wanted)
    }

    /// Returns the contents of the routes that a predicate selects, with the settings of Gateway and listener policies.
    pub(crate) fn parts_of(
        &self,
        plan: &RoutePlan,
        wanted: impl Fn(&Rendered, ListenerContext) -> bool,
    ) -> Vec<(Content, Node)> {
        self.parts_with(plan, self.plan.identity(), wanted)
    }

    /// Returns the contents of the routes that a predicate selects, as if the Gateway had this client certificate.
    pub(crate) fn parts_with(
        &self,
        plan: &RoutePlan,
        identity: &ClientIdentity,
        wanted: impl Fn(&Rendered, ListenerContext) -> bool,
    ) -> Vec<(Content, Node)> {
        let placed = self.placed_under(plan, &self.levels, Open { identity, closed: &self.closed });
        let placed = placed.filter(|(_, context, served)| wanted(served, *context));
        in_order(placed.map(|(_, context, served)| (served.encoded(context).1, served.node())))
    }

    /// Returns the routes of a plan at every place, as served there.
    pub(crate) fn placed<'a>(
        &'a self,
        plan: &'a RoutePlan,
    ) -> impl Iterator<Item = (&'a TableName, ListenerContext, Arc<Rendered>)> {
        self.placed_under(plan, &self.levels, Open::of(self))
    }

    fn placed_under<'a>(
        &'a self,
        plan: &'a RoutePlan,
        levels: &'a LevelPlan,
        open: Open<'a>,
    ) -> impl Iterator<Item = (&'a TableName, ListenerContext, Arc<Rendered>)> {
        plan.routes.iter().flat_map(move |rendered| {
            let places = plan.places.iter().filter(|place| place.0 == self.key && rendered.is_at(place));
            places.filter_map(move |(_, table, host)| {
                let (table, context) = self.tables.get_key_value(table).map(|(name, table)| (name, table.context))?;
                let levels = self.levels_in(levels, table, host);
                Some((table, context, open.served(rendered, &levels)))
            })
        })
    }

    /// Returns the service behind a cluster, and the routes that use it. Scans all routes: for rare queries only.
    pub(crate) fn users(&self, cluster: &str) -> Option<(Remote, Vec<(Content, Node)>)> {
        let backends = self.backends.keys().cloned().map(Remote::Backend);
        let remote = backends.chain(self.remotes.keys().cloned()).find(|remote| names::remote(remote) == cluster)?;
        let uses = |rendered: &Rendered| rendered.route.uses().contains(&remote);
        let of_plan = |plan: &Arc<RoutePlan>| {
            let stream = plan.stream.as_ref().filter(|stream| stream.uses().contains(&remote));
            let streams = stream.map(|_| self.stream_contents(plan, &self.levels.connections)).unwrap_or_default();
            self.contents_of(plan, uses).into_iter().chain(streams)
        };
        let users = self.routes.values().flat_map(of_plan).collect();
        Some((remote, users))
    }

    /// Returns whether a served route has this content.
    pub(crate) fn has_content(&self, content: &Content) -> bool {
        let parts = self.tables.values().flat_map(|table| table.parts.values());
        parts.flat_map(|parts| parts.iter()).any(|(known, _)| known == content)
    }

    /// Serves certificates in these versions instead of the desired ones.
    pub(crate) fn hold_certificates(&mut self, held: BTreeMap<ObjectKey, Arc<Resource>>) {
        self.held_certificates = held;
    }

    /// Returns the certificates of its listeners and the client certificates that are presented to backends.
    pub(crate) fn certificates(&self) -> BTreeSet<ObjectKey> {
        self.certificates.iter().chain(self.shown.keys()).chain(self.plan.identity().secret()).cloned().collect()
    }

    /// Returns whether the fleet uses this certificate.
    pub(crate) fn uses_certificate(&self, key: &ObjectKey) -> bool {
        self.certificates.contains(key) || self.shown.contains_key(key) || self.plan.identity().secret() == Some(key)
    }

    /// Returns whether the fleet uses the endpoints of this Service's port.
    pub(crate) fn uses(&self, service: &ServicePort) -> bool {
        self.services.contains_key(service)
    }

    /// Applies a changed plan of the Gateway.
    pub(crate) fn set_plan(&mut self, plan: Arc<GatewayPlan>) {
        self.dirty_listeners = true;
        if !self.levels.listeners.is_empty() {
            // A host may now belong to another listener.
            let hosts = |(name, table): (&TableName, &Table)| {
                table.hosts.keys().map(|host| (name.clone(), host.clone())).collect::<Vec<_>>()
            };
            self.dirty_hosts.extend(self.tables.iter().flat_map(hosts));
        }
        let mut wanted: BTreeMap<TableName, (ListenerContext, BTreeMap<Host, Base>)> = BTreeMap::new();
        let participating = || plan.all().filter(|listener| listener.state != ListenerState::Out);
        // Ports with listeners of ListenerSets, of which there may be many.
        let crowded: BTreeSet<u16> = participating().filter(|l| l.https && l.set.is_some()).map(|l| l.port).collect();
        for listener in participating().filter(|listener| listener.has_routes()) {
            let (_, hosts) = wanted.entry(listener.table()).or_insert_with(|| (listener.context(), BTreeMap::new()));
            // Clients that name no host are answered only by the hosts that are served to them.
            let base = if listener.is_for_nameless() { Base::Misdirected } else { Base::Owned };
            hosts.insert(listener.host(), base);
            // A connection serves the hosts of one listener. HTTPProxies and ListenerSets may have many listeners, so
            // that one entry (`*`) covers all other hosts, besides the hosts that match a wildcard of the listener.
            if listener.https && (listener.proxies || crowded.contains(&listener.port)) {
                hosts.entry(Host::any()).or_insert(Base::Misdirected);
            }
            let wildcards = chains::wildcards(listener, &plan);
            let is_of_many = |listener: &ListenerPlan| listener.proxies || listener.set.is_some();
            let may_be_misdirected = |other: &&ListenerPlan| match is_of_many(listener) || is_of_many(other) {
                true => wildcards.iter().any(|wildcard| wildcard.covers(&other.host())),
                false => true,
            };
            let others = participating().filter(|other| listener.https && other.bound() == listener.bound());
            for other in others.filter(may_be_misdirected) {
                hosts.entry(other.host()).or_insert(Base::Misdirected);
            }
        }
        let gone: Vec<_> = self.tables.keys().filter(|name| !wanted.contains_key(name)).cloned().collect();
        for name in gone {
            self.tables.remove(&name);
            self.lost_matches.remove_table(&name);
            self.snapshot.remove(ResourceType::Route, &names::route_configuration(&name));
            self.changed = true;
        }
        let fresh: BTreeSet<TableName> =
            wanted.keys().filter(|name| !self.tables.contains_key(*name)).cloned().collect();
        for (name, (context, bases)) in wanted {
            let table = self.tables.entry(name.clone()).or_insert_with(|| Table::new(context));
            if table.context != context {
                table.context = context;
                self.dirty_hosts.extend(table.hosts.keys().map(|host| (name.clone(), host.clone())));
            }
            for (host, state) in &mut table.hosts {
                let base = bases.get(host).copied();
                if state.base != base {
                    state.base = base;
                    self.dirty_hosts.insert((name.clone(), host.clone()));
                }
            }
            for (host, base) in bases {
                if !table.hosts.contains_key(&host) {
                    table.hosts.insert(host.clone(), HostState::without_routes(base));
                    self.dirty_hosts.insert((name.clone(), host));
                }
            }
            self.dirty_tables.insert(name);
        }
        self.set_secrets(&plan);
        let before = std::mem::replace(&mut self.plan, plan);
        self.validation_changed();
        clients::changed(self, before.identity());
        // The routes of a table that is created again may be unchanged.
        if !fresh.is_empty() {
            let routes: Vec<Arc<RoutePlan>> = self.routes.values().cloned().collect();
            routes.iter().for_each(|plan| self.put_routes(plan, |table| fresh.contains(table)));
        }
    }

    /// Sets the certificates and validation contexts of the listeners of a plan.
    fn set_secrets(&mut self, plan: &GatewayPlan) {
        let participating = || plan.all().filter(|listener| listener.state != ListenerState::Out);
        let serving = participating().filter(|listener| listener.state == ListenerState::Serving);
        self.certificates = serving.clone().flat_map(|listener| listener.certificates.iter().cloned()).collect();
        let trusts = serving.filter_map(|listener| listener.clients.as_ref()).map(|clients| clients.trust.resource());
        self.trusts = trusts.map(|resource| (resource.name.clone(), Arc::new(resource))).collect();
        let without = |listener: &&ListenerPlan| {
            listener.https && (listener.clients.is_some() || listener.state != ListenerState::Serving)
        };
        self.without_policy_validation = participating().filter(without).map(ListenerPlan::table).collect();
    }

    /// Marks the hosts of listeners that a missing validation of client certificates closes now, or no longer.
    fn validation_changed(&mut self) {
        let closed = self.plan.listeners.iter().filter(|listener| listener.is_unvalidated);
        let before = std::mem::replace(&mut self.unvalidated, closed.map(ListenerPlan::table).collect());
        for name in before.symmetric_difference(&self.unvalidated) {
            let hosts = self.tables.get(name).into_iter().flat_map(|table| table.hosts.keys());
            self.dirty_hosts.extend(hosts.map(|host| (name.clone(), host.clone())));
        }
    }

    /// Replaces the routes of a route object.
    pub(crate) fn set_route(&mut self, route: &ObjectKey, new: Option<&Arc<RoutePlan>>) {
        let new = new.filter(|plan| plan.gateways().contains(&self.key)).cloned();
        let old = match &new {
            Some(plan) => self.routes.insert(route.clone(), plan.clone()),
            None => self.routes.remove(route),
        };
        if let Some(old) = &old {
            self.each_place(
                old,
                |_| true,
                |state, place| {
                    for (rendered, lent) in old.at(place) {
                        state.routes.remove(&PlacedRoute::new(rendered.clone(), lent));
                    }
                    if old.host != HostSettings::default() {
                        state.settings = HostSettings::default();
                    }
                },
            );
        }
        if let Some(new) = &new {
            self.put_routes(new, |_| true);
        }
        self.dirty_listeners |= self.streams.replace(&self.key, route, old.as_deref(), new.as_deref());
        let remotes = |plan: Option<&Arc<RoutePlan>>| plan.map(|plan| plan.remotes()).unwrap_or_default();
        let (before, after) = (remotes(old.as_ref()), remotes(new.as_ref()));
        after.difference(&before).for_each(|remote| self.use_remote(remote, route));
        before.difference(&after).for_each(|remote| self.release_remote(remote, route));
        let backends = |plan: Option<Arc<RoutePlan>>| plan.map(|plan| plan.backends.clone()).unwrap_or_default();
        let (before, after) = (backends(old), backends(new));
        after.difference(&before).for_each(|backend| self.use_backend(backend));
        before.difference(&after).for_each(|backend| self.release_backend(backend));
    }

    /// Returns whether the fleet serves this version of a route object.
    pub(crate) fn has(&self, route: &ObjectKey, plan: &RoutePlan) -> bool {
        let same = |known: &Arc<RoutePlan>| {
            (&known.places, &known.lent) == (&plan.places, &plan.lent)
                && (&known.routes, &known.stream) == (&plan.routes, &plan.stream)
                && known.backends == plan.backends
                && known.host == plan.host
        };
        self.routes.get(route).is_some_and(same)
    }

    fn put_routes(&mut self, new: &RoutePlan, at: impl Fn(&TableName) -> bool) {
        self.each_place(new, at, |state, place| {
            for (rendered, lent) in new.at(place) {
                state.routes.replace(PlacedRoute::new(rendered.clone(), lent));
            }
            if new.host != HostSettings::default() {
                state.settings.clone_from(&new.host);
            }
        });
    }

    /// Changes the hosts at the places of a route object, in the tables that `at` selects.
    fn each_place(&mut self, of: &RoutePlan, at: impl Fn(&TableName) -> bool, edit: impl Fn(&mut HostState, &Place)) {
        for place in of.places.iter().filter(|(gateway, table, _)| *gateway == self.key && at(table)) {
            let (_, table_name, host) = place;
            let Some(table) = self.tables.get_mut(table_name) else { continue };
            edit(table.hosts.entry(host.clone()).or_default(), place);
            self.dirty_hosts.insert((table_name.clone(), host.clone()));
        }
    }

    fn use_backend(&mut self, backend: &BackendCluster) {
        let users = self.backends.entry(backend.clone()).or_insert(0);
        *users += 1;
        if *users == 1 {
            self.put_backend(backend);
            if let Some(service) = backend.service() {
                self.use_service(service);
            }
            if let Some(client) = backend.client() {
                *self.shown.entry(client.clone()).or_insert(0) += 1;
            }
        }
    }

    fn use_service(&mut self, service: &ServicePort) {
        let users = self.services.entry(service.clone()).or_insert(0);
        *users += 1;
        if *users == 1 {
            self.fresh_services.insert(service.clone());
        }
    }

    fn put_backend(&mut self, backend: &BackendCluster) {
        let identity = self.plan.identity();
        let origins: Origins = backend.origins().chain(identity.origin(backend.tls())).cloned().collect();
        let resource = Resource::new(names::cluster(backend), encode::cluster::encode(backend, identity), origins);
        self.put(ResourceType::Cluster, Arc::new(resource));
    }

    fn release_backend(&mut self, backend: &BackendCluster) {
        if !released(&mut self.backends, backend) {
            return;
        }
        let name = names::cluster(backend);
        // The cluster of a changed object keeps its name.
        let is_same =
            |other: &&BackendCluster| other.place.key() == backend.place.key() && names::cluster(other) == name;
        let other = self.backends.keys().filter(|_| backend.service().is_none()).find(is_same).cloned();
        match other {
            Some(other) => self.put_backend(&other),
            None => {
                self.snapshot.remove(ResourceType::Cluster, &name);
            }
        }
        if let Some(client) = backend.client() {
            released(&mut self.shown, client);
        }
        if let Some(service) = backend.service()
            && released(&mut self.services, service)
        {
            self.snapshot.remove(ResourceType::Endpoints, &names::endpoints(service));
        }
        self.changed = true;
    }

    /// Inserts a resource that differs from the current one.
    pub(crate) fn put(&mut self, kind: ResourceType, resource: Arc<Resource>) {
        let same = |old: &Arc<Resource>| old.version == resource.version && old.origins == resource.origins;
        if self.snapshot.get(kind, &resource.name).is_some_and(same) {
            return;
        }
        self.snapshot.insert(kind, resource);
        self.changed = true;
    }

    /// Encodes all changes. `endpoints` and `secrets` are those of all Gateways.
    pub(crate) fn finish(
        &mut self,
        endpoints: &HashMap<ServicePort, Arc<Resource>>,
        secrets: &HashMap<ObjectKey, Arc<Resource>>,
    ) {
        for (table_name, host) in std::mem::take(&mut self.dirty_hosts) {
            self.finish_host(&table_name, &host);
        }
        for name in std::mem::take(&mut self.dirty_tables) {
            self.finish_table(&name);
        }
        for service in std::mem::take(&mut self.fresh_services) {
            visits::resources(1);
            if let Some(resource) = endpoints.get(&service).filter(|_| self.services.contains_key(&service)) {
                self.put(ResourceType::Endpoints, resource.clone());
            }
        }
        self.finish_groups(endpoints);
        let known: Vec<_> = self.snapshot.of(ResourceType::Secret).keys().cloned().collect();
        let mut wanted: BTreeMap<_, _> =
            self.certificates().iter().filter_map(|key| self.certificate(key, secrets)).collect();
        wanted.extend(self.trusts.clone());
        wanted.extend(self.levels.connections.trusts(&self.without_policy_validation));
        if self.dirty_listeners {
            self.filter_secrets = self.secrets_of_filters();
        }
        wanted.extend(self.filter_secrets.clone());
        for name in known.iter().filter(|name| !wanted.contains_key(*name)) {
            self.snapshot.remove(ResourceType::Secret, name);
            self.changed = true;
        }
        wanted.into_values().for_each(|resource| self.put(ResourceType::Secret, resource));
        if std::mem::take(&mut self.dirty_listeners) {
            self.finish_listeners();
        }
    }

    fn certificate(
        &self,
        key: &ObjectKey,
        secrets: &HashMap<ObjectKey, Arc<Resource>>,
    ) -> Option<(Arc<str>, Arc<Resource>)> {
        let resource = self.held_certificates.get(key).or_else(|| secrets.get(key))?;
        Some((resource.name.clone(), resource.clone()))
    }

    fn finish_host(&mut self, table_name: &TableName, host: &Host) {
        let levels = self.levels_at(table_name, host).map(|level| level.cloned());
        let is_closed = self.is_closed(table_name, host);
        let answer = everything(&self.closed_response(self.closing(table_name, host)));
        let plan = self.plan.clone();
        let closed = self.closed.clone();
        let open = Open { identity: plan.identity(), closed: &closed };
        let Some(table) = self.tables.get_mut(table_name) else { return };
        let Some(state) = table.hosts.get_mut(host) else { return };
        if state.base.is_none() && state.routes.is_empty() {
            self.dirty_listeners |= !state.filters.is_empty();
            table.hosts.remove(host);
            table.blocks.mark(host);
            table.parts.remove(host);
            self.lost_matches.set(table_name, host, Vec::new());
            self.dirty_tables.insert(table_name.clone());
            return;
        }
        visits::routes(state.routes.len());
        let lost = lost_matches(state.desired());
        self.lost_matches.set(table_name, host, lost);
        let context = table.context;
        let served = state.routes_under(&levels, &open);
        let encoded = |rendered: Arc<Rendered>| (rendered.encoded(context), rendered);
        // Closed routes have no parts: they are neither suspected nor proven.
        let open = served.into_iter().filter(|_| !is_closed);
        let open: Vec<Arc<Rendered>> = open.collect();
        let mut overlaps = placeholders::overlaps(&open, context);
        let (mut routes, mut parts) = (Vec::with_capacity(open.len()), Vec::with_capacity(open.len()));
        for (index, rendered) in open.into_iter().enumerate() {
            routes.append(&mut overlaps.remove(&index).unwrap_or_default());
            let ((bytes, content), rendered) = encoded(rendered);
            routes.push(bytes);
            parts.push((content, rendered));
        }
        table.parts.insert(host.clone(), parts.into());
        if is_closed && state.base != Some(Base::Misdirected) {
            routes.push(answer);
        }
        if state.base == Some(Base::Misdirected) && routes.is_empty() {
            routes.push(misdirected());
        }
        let settings = if is_closed { state.settings.clone() } else { state.settings_under(&levels) };
        let bytes = virtual_host(names::virtual_host(host), host.domain().to_owned(), routes.iter(), &settings);
        let guards = state.desired().filter_map(|rendered| rendered.route.guards_at(context));
        let guards = guards.chain((!is_closed).then_some(&*settings.guards));
        let filters: BTreeSet<ChainFilter> = guards.flat_map(Guards::filters).collect();
        if state.filters != filters {
            state.filters = filters;
            self.dirty_listeners = true;
        }
        let version = Some(Version::of(&bytes));
        // Policies of the whole route configuration are in the origins of that resource.
        let of_policies = levels[0].iter().map(|level| &level.origins);
        let origins = Origins::union(state.desired().map(|rendered| &rendered.route.origins).chain(of_policies));
        if state.version != version || state.origins != origins {
            state.bytes = bytes;
            state.version = version;
            state.origins = origins;
            table.blocks.mark(host);
            self.dirty_tables.insert(table_name.clone());
        }
    }

    fn finish_table(&mut self, name: &TableName) {
        let Some(table) = self.tables.get_mut(name) else { return };
        table.blocks.refresh(&mut table.hosts);
        let Some(table) = self.tables.get(name) else { return };
        let resource_name = names::route_configuration(name);
        let level = self.levels.tables.get(name);
        let (nothing, no_guards) = (Filters::new(), Guards::default());
        let EncodedRoutes { body, version, parts } = if self.is_closed_at(&Scope::Table(name.clone())) {
            let answer = everything(&self.closed_response(level.and_then(|level| level.closed.as_ref())));
            let any = Host::any();
            let (host, domain) = (names::virtual_host(&any), any.domain().to_owned());
            let mut host = virtual_host(host, domain, std::iter::once(&answer), &HostSettings::default());
            let version = Version::of(&host);
            let hosts = EncodedHosts::new(vec![(&mut host, &version)]);
            route_configuration(resource_name.clone(), &nothing, &no_guards, std::iter::once(&hosts))
        } else {
            let (filters, guards) = level.map_or((&nothing, &no_guards), |level| (&level.filters, &level.guards));
            route_configuration(resource_name.clone(), filters, guards, table.blocks.encoded())
        };
        let of_policies = level.map(|level| &level.origins);
        let origins = Origins::union(table.blocks.origins().chain(of_policies));
        let origins = origins.with(self.key.clone());
        let listeners = self.plan.listeners.iter().filter(|l| l.set.is_some() && l.state != ListenerState::Out);
        let sets = listeners.filter(|l| l.table() == *name).filter_map(|l| l.set.as_ref()).map(|set| set.key.clone());
        let sets: Origins = sets.collect();
        let origins = if sets.is_empty() { origins } else { Origins::union([&origins, &sets]) };
        let resource = Resource::with_version(resource_name, version, body, origins).of_parts(parts);
        visits::bytes(resource.body.len());
        self.put(ResourceType::Route, Arc::new(resource));
    }

    fn finish_listeners(&mut self) {
        let plan = self.plan.clone();
        let ports = ports::ports(&self.key, &plan, &self.levels.connections, |table| self.filters(table), self);
        let names: BTreeSet<String> = ports.iter().map(|(port, _)| names::listener(port.bound())).collect();
        let gone: Vec<_> =
            self.snapshot.of(ResourceType::Listener).keys().filter(|name| !names.contains(&***name)).cloned().collect();
        for name in gone {
            self.snapshot.remove(ResourceType::Listener, &name);
            self.changed = true;
        }
        for (port, origins) in ports {
            let (name, body) = (names::listener(port.bound()), encode::listener::encode(&port));
            self.put(ResourceType::Listener, Arc::new(Resource::new(name, body, origins)));
        }
    }
}

fn in_order(contents: impl Iterator<Item = (Content, Node)>) -> Vec<(Content, Node)> {
    let mut contents: Vec<_> = contents.collect();
    contents.sort_unstable();
    contents.dedup();
    contents
}

/// Decrements the number of users; returns true if no user is left.
fn released<K: Ord>(users: &mut BTreeMap<K, usize>, key: &K) -> bool {
    match users.get_mut(key) {
        Some(count) if *count > 1 => {
            *count -= 1;
            false
        }
        Some(_) => users.remove(key).is_some(),
        None => false,
    }
}

fn misdirected() -> Bytes {
    everything(&FixedResponse::new(MISDIRECTED, "".into()))
}
