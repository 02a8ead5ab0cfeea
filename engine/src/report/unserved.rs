//! Listeners that some Envoys are not served, and the routes at such listeners only: what conditions and the fallback
//! page report about them.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_envoy::model::port::Transport;
use holdfast_fallback::served_state::speaking;
use holdfast_translate::claims::{ListenerId, Parent};
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::listener::{ListenerPlan, ListenerState};

use super::health::listeners::closed;
use crate::engine::Engine;
use crate::health::view::Gets;

/// Returns the listeners that some Envoys are not served.
pub(super) fn unserved_listeners(engine: &Engine) -> BTreeSet<ListenerId> {
    let mut unserved = BTreeSet::new();
    for (key, plan) in engine.translator.plans() {
        let served = served_plans(engine, plan);
        let serves = |served: &&GatewayPlan, listener: &ListenerPlan| {
            let mut all = served.listeners.iter().filter(|one| one.name == listener.name);
            all.any(|one| one.state == ListenerState::Serving)
        };
        let is_served = |listener: &&ListenerPlan| match served.is_empty() {
            true => listener.state == ListenerState::Serving,
            false => served.iter().all(|served| serves(served, listener)),
        };
        let closed = plan.listeners.iter().filter(|listener| !is_served(listener));
        unserved.extend(closed.map(|listener| ListenerId { gateway: key.clone(), name: listener.name.clone() }));
    }
    unserved
}

/// Returns the states of a Gateway that its Envoys are served.
fn served_plans<'a>(engine: &'a Engine, plan: &GatewayPlan) -> Vec<&'a GatewayPlan> {
    let scopes = speaking(engine.scopes.of(&plan.name));
    scopes.filter_map(|scope| engine.translator.served_gateway(&scope.id.fleet)).collect()
}

/// Checks whether a route attaches to listeners of a parent, and none of them is served.
pub(super) fn is_unserved(parent: &Parent, mut is_unserved: impl FnMut(&ListenerId) -> bool) -> bool {
    let mut all = parent.attachments.iter().peekable();
    all.peek().is_some() && all.all(|attachment| is_unserved(&attachment.listener))
}

/// Returns the listeners that some Envoys are not served, with the reason and what their clients get.
pub(super) fn reasons(engine: &Engine) -> BTreeMap<ListenerId, String> {
    let with_reason = |id: ListenerId| {
        let plan = engine.translator.gateway(&id.gateway)?;
        let listener = plan.listeners.iter().find(|listener| listener.name == id.name)?;
        let all = served_plans(engine, plan);
        let served = all.first().copied().unwrap_or(plan);
        let owner = listener.owner(&id.gateway);
        let (section, kind, name) = (listener.section(), &owner.kind, owner.namespaced_name());
        let message = format!(
            "listener {section} of {kind} {name} is not served: {}; {}",
            why(listener),
            effect(listener, served)
        );
        Some((id, message))
    };
    unserved_listeners(engine).into_iter().filter_map(with_reason).collect()
}

/// Returns why a listener is not served.
fn why(listener: &ListenerPlan) -> &str {
    if listener.conflicted.status == "True" {
        return &listener.conflicted.message;
    }
    let all = [&listener.accepted, &listener.resolved_refs];
    let negative = all.into_iter().find(|condition| condition.status == "False");
    negative.map_or("see the conditions of the listener", |condition| &condition.message)
}

/// Returns what clients of a listener get that is not served.
fn effect(listener: &ListenerPlan, served: &GatewayPlan) -> String {
    match closed(listener, served) {
        Gets::PortInUse => "connections reach the process or Gateway that uses its port".to_owned(),
        Gets::Status { status } => format!("its requests get status {status}"),
        Gets::Refused if listener.bound().transport == Transport::Udp => "datagrams are dropped".to_owned(),
        Gets::Refused => "connections are refused".to_owned(),
        _ => "another listener of its port answers its requests".to_owned(),
    }
}
