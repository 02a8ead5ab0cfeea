//! Requests of a replaced section that other routes answer: a placeholder comes after a route with an equal match, the
//! older one of two objects gets the requests of an equal match, and a policy may close the host. What no request gets is
//! no effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::section::{self, ObjectSection};
use holdfast_graph::Node;

use super::Holds;
use crate::engine::Engine;
use crate::health::facts::Effect;
use crate::health::view::Gets;

/// Removes what no request gets: the hosts at which another route answers each request, and effects without a host left.
/// In a hold, the published order of routes is an earlier one.
pub(super) fn remove_overtaken(engine: &Engine, holds: &Holds<'_>, effects: &mut Vec<Effect>) {
    let claimed_twice = claimed_twice(effects);
    let is_meant = |effect: &Effect| {
        is_answer(effect) && !holds.contains_key(&*effect.gateway) && !claimed_twice.contains(&part(effect))
    };
    let mut parts: BTreeMap<Arc<str>, BTreeSet<Node>> = BTreeMap::new();
    for effect in effects.iter().filter(|effect| is_meant(effect)) {
        parts.entry(effect.gateway.clone()).or_default().insert(part(effect));
    }
    for (gateway, parts) in parts {
        let fleet = engine.scope_of(&gateway).map(|scope| scope.id.fleet.clone());
        let Some(reached) = fleet.and_then(|fleet| engine.translator.reached_hosts(&fleet, &parts)) else { continue };
        effects.retain_mut(|effect| {
            if effect.gateway != gateway || !is_meant(effect) {
                return true;
            }
            let hosts = reached.get(&part(effect));
            effect.hosts.retain(|host| hosts.is_some_and(|hosts| hosts.contains(host)));
            !effect.hosts.is_empty()
        });
    }
}

/// Returns the hosts of HTTPProxies that several roots claim. Envoy answers with the placeholder of one root; the others
/// are closed with the same response.
fn claimed_twice(effects: &[Effect]) -> BTreeSet<Node> {
    let mut claims: BTreeMap<_, BTreeSet<Node>> = BTreeMap::new();
    for effect in effects.iter().filter(|effect| is_answer(effect) && *effect.section == *section::HOST) {
        claims.entry((&effect.gateway, &effect.hosts, &effect.gets)).or_default().insert(part(effect));
    }
    claims.into_values().filter(|roots| roots.len() > 1).flatten().collect()
}

/// Returns whether an effect is the answer to requests of a part of a route object.
fn is_answer(effect: &Effect) -> bool {
    let is_listener = matches!(ObjectSection::parse(&effect.section), ObjectSection::Listener(_));
    let of_requests = matches!(effect.gets, Gets::Status { .. } | Gets::Share { .. });
    of_requests && !is_listener && !effect.section.is_empty() && !effect.hosts.is_empty() && effect.listener.is_none()
}

fn part(effect: &Effect) -> Node {
    Node::section(effect.object.key(), effect.section.clone())
}
