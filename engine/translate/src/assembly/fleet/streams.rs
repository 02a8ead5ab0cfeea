//! Routes of connections: the filter chains of listeners that forward connections by the server name.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::object::Age;
use holdfast_envoy::encode::listener::{Chain, GatewayPort};
use holdfast_envoy::encode::{self, names};
use holdfast_envoy::features::connection::ListenerSettings;
use holdfast_envoy::inspect::chain_parts::{self, ChainParts};
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_graph::{Content, Node, ObjectKey, Origins};

use crate::assembly::chains;
use crate::outcome::gateway::GatewayPlan;
use crate::outcome::listener::{ListenerPlan, ListenerState};
use crate::outcome::route::{RoutePlan, StreamRoute};
use crate::policy::connections::{Connection, Connections};

/// The order of routes with the same host at a listener: hosts that only an earlier version claims come last, then the
/// older route comes first.
type StreamRank = (bool, Age, ObjectKey);

/// The routes of one listener, by host. The first route of a host has its connections.
pub(crate) type Streams = BTreeMap<Host, BTreeMap<StreamRank, Arc<StreamRoute>>>;

/// The routes of connections of one Gateway, by listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamTable(BTreeMap<Arc<str>, Streams>);

impl StreamTable {
    /// Replaces a route at its places at a Gateway. Returns whether it is or was a route of connections.
    pub(super) fn replace(
        &mut self,
        gateway: &ObjectKey,
        key: &ObjectKey,
        old: Option<&RoutePlan>,
        new: Option<&RoutePlan>,
    ) -> bool {
        for (listener, host, rank, _) in places_with_routes(gateway, key, old) {
            let Some(streams) = self.0.get_mut(&listener) else { continue };
            if let Some(ranked) = streams.get_mut(&host) {
                ranked.remove(&rank);
            }
            streams.retain(|_, ranked| !ranked.is_empty());
        }
        self.0.retain(|_, streams| !streams.is_empty());
        for (listener, host, rank, route) in places_with_routes(gateway, key, new) {
            self.0.entry(listener).or_default().entry(host).or_default().insert(rank, route);
        }
        [old, new].into_iter().flatten().any(|plan| plan.stream.is_some())
    }

    /// Returns the routes of a listener.
    pub(super) fn at(&self, listener: &ListenerPlan) -> Option<&Streams> {
        self.0.get(&listener.name)
    }

    /// Returns the units of the chains of a listener, by chain name.
    pub(super) fn units(&self, listener: &ListenerPlan) -> Vec<(String, Node)> {
        let owned = self.at(listener).into_iter().flatten().filter_map(|(host, ranked)| {
            let name = names::server(&listener.name, host);
            let node = &ranked.values().next()?.node;
            Some([(names::stream(&name), node.clone()), (names::refusal(&name), node.clone())])
        });
        owned.flatten().collect()
    }
}

/// Returns the listeners and hosts of a route of connections at a Gateway, and whether only an earlier version claims
/// each.
fn places(gateway: &ObjectKey, plan: &RoutePlan) -> Vec<(Arc<str>, Host, bool)> {
    let own = plan.places.iter().filter(|(at, _, _)| at == gateway);
    let place = |place: &(ObjectKey, TableName, Host)| match &place.1 {
        TableName::Listener(name) => Some((name.clone(), place.2.clone(), plan.lent.contains(place))),
        TableName::Port(_) => None,
    };
    own.filter_map(place).collect()
}

/// Returns the places of a route of connections, each with its rank there.
fn places_with_routes(
    gateway: &ObjectKey,
    key: &ObjectKey,
    plan: Option<&RoutePlan>,
) -> Vec<(Arc<str>, Host, StreamRank, Arc<StreamRoute>)> {
    let routes = plan.and_then(|plan| Some((plan, plan.stream.as_ref()?)));
    let placed = routes.into_iter().flat_map(|(plan, route)| {
        let rank = move |lent: bool| (lent, route.age.clone(), key.clone());
        let places = places(gateway, plan).into_iter();
        places.map(move |(listener, host, lent)| (listener, host, rank(lent), route.clone()))
    });
    placed.collect()
}

/// Returns the contents of a route of connections at all its places at a Gateway. The server name is no part of them: a
/// chain that Envoy accepted proves the route for its other hosts, too.
pub(super) fn contents(
    (gateway, at): (&ObjectKey, &GatewayPlan),
    plan: &RoutePlan,
    connections: &Connections,
) -> Vec<(Content, Node)> {
    let parts = parts((gateway, at), plan, connections).into_iter();
    parts.map(|(parts, node)| (parts.forwarding.unwrap_or(parts.placed), node)).collect()
}

/// Returns the parts of the chains of a route of connections at all its places at a Gateway.
pub(super) fn parts(
    (gateway, at): (&ObjectKey, &GatewayPlan),
    plan: &RoutePlan,
    connections: &Connections,
) -> Vec<(ChainParts, Node)> {
    let Some(route) = &plan.stream else { return Vec::new() };
    let settings = |connection: Option<&Arc<Connection>>| connection.map(|own| own.settings.clone());
    let parts = |(name, host, _): (Arc<str>, Host, bool)| {
        let forwards = |listener: &&ListenerPlan| {
            listener.name == name && listener.forwards() && listener.state == ListenerState::Serving
        };
        let listener = at.listeners.iter().find(forwards)?;
        let of_listener = settings(connections.tables.get(&listener.table())).unwrap_or_default();
        let chains = vec![chains::stream(listener, &host, route, &of_listener)];
        let socket = settings(connections.sockets.get(&listener.bound())).unwrap_or_default();
        let (address, transport) = (at.socket(listener.port), listener.traffic.transport());
        let port = GatewayPort { address, transport, chains, socket };
        chain_parts::parts(&encode::listener::encode(&port)).into_iter().next()
    };
    let all = places(gateway, plan).into_iter().filter_map(parts);
    all.map(|parts| (parts, route.node.clone())).collect()
}

/// Returns the only filter chain of a listener without TLS, and the route that it is made from.
pub(crate) fn of_port(listener: &ListenerPlan, streams: Option<&Streams>) -> (Chain, Origins) {
    let first = streams.into_iter().flatten().find_map(|(host, ranked)| Some((host, ranked.values().next()?)));
    match first {
        Some((host, route)) => {
            (chains::stream(listener, host, route, &ListenerSettings::default()), Origins::one(route.node.key.clone()))
        }
        None => (chains::refuse_all(listener), Origins::default()),
    }
}

/// Returns the filter chains of a listener with TLS that forwards connections: one for each host of its routes, and one that
/// refuses the other connections of the listener. `others`: the chains of the port so far.
pub(crate) fn of_listener(
    listener: &ListenerPlan,
    streams: Option<&Streams>,
    connection: &Arc<Connection>,
    others: &[Chain],
) -> Vec<Chain> {
    let mut own: Vec<Chain> = Vec::new();
    for (host, ranked) in streams.into_iter().flatten() {
        let Some(route) = ranked.values().next() else { continue };
        // Envoy rejects two chains with equal matches.
        if !chains::has_host(others, host) {
            own.push(chains::stream(listener, host, route, &connection.settings));
        }
    }
    let rest = listener.host();
    if !chains::has_host(others, &rest) && !chains::has_host(&own, &rest) {
        own.push(Chain::Refuse { host: listener.hostname.clone(), name: listener.name.clone() });
    }
    own
}
