//! Ports of a Gateway: the filter chains of the listeners at each port.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_envoy::encode::listener::{Chain, GatewayPort};
use holdfast_envoy::features::chain::ChainFilter;
use holdfast_envoy::model::port::BoundPort;
use holdfast_envoy::model::table::TableName;
use holdfast_graph::{ObjectKey, Origins};

use super::fleet::{Fleet, streams};
use crate::outcome::gateway::GatewayPlan;
use crate::outcome::listener::{ListenerPlan, ListenerState};
use crate::policy::connections::{Connection, Connections};

/// Returns the bound ports, each with its origins.
pub(crate) fn ports(
    key: &ObjectKey,
    plan: &GatewayPlan,
    connections: &Connections,
    filters: impl Fn(&TableName) -> Vec<ChainFilter>,
    fleet: &Fleet,
) -> Vec<(GatewayPort, Origins)> {
    let bound: BTreeSet<BoundPort> =
        plan.all().filter(|l| l.state != ListenerState::Out).map(ListenerPlan::bound).collect();
    bound.into_iter().map(|bound| port(key, bound, plan, connections, &filters, fleet)).collect()
}

fn port(
    key: &ObjectKey,
    bound: BoundPort,
    plan: &GatewayPlan,
    connections: &Connections,
    filters: impl Fn(&TableName) -> Vec<ChainFilter>,
    fleet: &Fleet,
) -> (GatewayPort, Origins) {
    let mut chains: Vec<Chain> = Vec::new();
    let mut origins = Origins::one(key.clone());
    let settings_of = |connection: Option<&Arc<Connection>>, origins: &mut Origins| {
        let connection = connection.cloned().unwrap_or_default();
        *origins = Origins::union([&*origins, &connection.origins]);
        connection.settings.clone()
    };
    let socket = settings_of(connections.sockets.get(&bound), &mut origins);
    let listeners = plan.all().filter(|l| l.bound() == bound && l.state != ListenerState::Out);
    let filters = |table: &TableName, origins: &mut Origins| {
        let filters = filters(table);
        if !filters.is_empty() {
            let owners: Origins = filters.iter().flat_map(ChainFilter::owners).cloned().collect();
            *origins = Origins::union([&*origins, &owners]);
        }
        filters
    };
    let all_refused = listeners.clone().all(|listener| listener.state == ListenerState::Refused);
    let sets: Origins = listeners.clone().filter_map(|l| l.set.as_ref()).map(|set| set.key.clone()).collect();
    if !sets.is_empty() {
        origins = Origins::union([&origins, &sets]);
    }
    for listener in listeners {
        let host = listener.hostname.clone();
        match (listener.https, listener.state) {
            (false, _) if !chains.is_empty() => {}
            (false, ListenerState::Serving) if listener.forwards() => {
                let (chain, owners) = streams::of_port(listener, fleet.streams_at(listener));
                origins = Origins::union([&origins, &owners]);
                chains.push(chain);
            }
            (false, _) if listener.forwards() => chains.push(super::chains::refuse_all(listener)),
            (false, _) if all_refused => chains.push(Chain::RefuseAll { name: listener.name.clone() }),
            (false, _) => {
                let (table, proxies) = (listener.table(), listener.proxies);
                let filters = filters(&table, &mut origins);
                let settings = settings_of(connections.tables.get(&table), &mut origins);
                chains.push(Chain::Http { table, proxies, filters, settings });
            }
            (true, ListenerState::Serving) if listener.forwards() => {
                let streams = fleet.streams_at(listener);
                let routes = streams.into_iter().flatten().filter_map(|(_, ranked)| ranked.values().next());
                let own = listener.certificates.iter().chain(routes.map(|route| &route.node.key));
                let connection = connections.tables.get(&listener.table()).cloned().unwrap_or_default();
                origins = Origins::union([&origins, &own.cloned().collect::<Origins>(), &connection.origins]);
                chains.extend(streams::of_listener(listener, streams, &connection, &chains));
            }
            (true, ListenerState::Serving) => {
                let stream = listener.stream.iter().flat_map(|stream| &stream.origins);
                let own: Origins = listener.certificates.iter().chain(stream).cloned().collect();
                origins = Origins::union([&origins, &own]);
                let filters = filters(&listener.table(), &mut origins);
                // Hosts of HTTPProxies are not listeners that policies apply to.
                let connection = connections.tables.get(&listener.table()).filter(|_| !listener.proxies);
                let settings = settings_of(connection, &mut origins);
                chains.push(super::chains::chain(listener, filters, settings));
            }
            // Envoy rejects two chains with equal matches.
            (true, _) if super::chains::has_host(&chains, &listener.host()) => {}
            (true, _) => chains.push(Chain::Refuse { host, name: listener.name.clone() }),
        }
    }
    (GatewayPort { address: plan.socket(bound.number), transport: bound.transport, chains, socket }, origins)
}
