//! HTTPProxies at listeners of which another process or Gateway uses the port. An HTTPProxy with TLS can be served at
//! the other one of its two ports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::section;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_graph::ObjectKey;
use holdfast_translate::listener::ListenerPlan;
use holdfast_translate::route::RoutePlan;

use super::listeners::field;
use crate::engine::Engine;
use crate::health::facts::Effect;
use crate::health::view::Gets;

/// A listener of which the port is in use, and the object in which it is written; unset for a generated listener.
type InUse<'a> = (&'a ListenerPlan, Option<&'a ObjectKey>);

/// Returns what clients of these HTTPProxies get.
pub(super) fn proxies_at_ports_in_use(engine: &Engine) -> Vec<Effect> {
    let mut in_use: BTreeMap<(&ObjectKey, TableName), InUse<'_>> = BTreeMap::new();
    for (gateway, plan) in engine.translator.plans() {
        for listener in plan.all().filter(|listener| listener.is_port_in_use) {
            // A host with TLS has a generated listener at the port.
            let written = plan.listeners.iter().find(|one| one.is_port_in_use && one.bound() == listener.bound());
            let named = written.unwrap_or(listener);
            let owner = (!named.is_generated()).then(|| named.owner(gateway));
            in_use.insert((gateway, listener.table()), (named, owner));
        }
    }
    if in_use.is_empty() {
        return Vec::new();
    }
    let proxies = engine.translator.routes().into_iter().filter(|(key, _)| &*key.kind == kinds::HTTP_PROXY);
    proxies.flat_map(|(key, plan)| effects(engine, key, plan, &in_use)).collect()
}

fn effects(
    engine: &Engine,
    key: &ObjectKey,
    plan: &RoutePlan,
    in_use: &BTreeMap<(&ObjectKey, TableName), InUse<'_>>,
) -> Vec<Effect> {
    let places =
        plan.places.iter().map(|(gateway, table, host)| (gateway, host, in_use.get(&(gateway, table.clone()))));
    let is_everywhere = places.clone().all(|(_, _, in_use)| in_use.is_some());
    let lost = places.filter_map(|(gateway, host, in_use)| Some((gateway, host, in_use?)));
    let effect = |(gateway, host, (listener, owner)): (&ObjectKey, &Host, &InUse<'_>)| Effect {
        gateway: gateway.namespaced_name().into(),
        listener: (!is_everywhere).then(|| listener.name.clone()),
        gets: Gets::PortInUse,
        hosts: BTreeSet::from([Arc::from(host.domain())]),
        causes: owner.cloned().into_iter().collect(),
        causing_section: owner.map(|_| field(listener)).unwrap_or_default(),
        message: listener.accepted.message.clone(),
        ..Effect::left_out(&engine.identity(key, None), section::HOST)
    };
    lost.map(effect).collect()
}
