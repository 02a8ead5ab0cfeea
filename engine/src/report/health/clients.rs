//! Effects of a client certificate of a Gateway that is not available: routes to backends over TLS are closed.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::section::GATEWAY_TLS;
use holdfast_fallback::scope::FallbackScope;
use holdfast_fallback::served_state::speaking;
use holdfast_graph::{Node, ObjectKey};
use holdfast_translate::httpproxy::is_proxy;
use holdfast_translate::query::clients::{UnreachablePart, Unreached, unreachable_parts};

use crate::engine::Engine;
use crate::health::facts::Effect;
use crate::health::view::Gets;

/// The status of requests to a backend that is not reached.
const UNREACHABLE: u16 = 500;

/// Returns the effects on routes of the Gateways that lack their client certificate.
pub(super) fn without_certificate(engine: &Engine) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (name, scopes) in engine.scopes.gateways() {
        let Some(scope) = speaking(scopes).next() else { continue };
        let (cause, section) = cause(engine, scope);
        for part in unreachable_parts(&engine.translator, &scope.id.fleet) {
            let Some(plan) = engine.translator.route(part.route) else { continue };
            let is_stream = kinds::STREAM_ROUTES.contains(&&*part.route.kind);
            let gets = gets(part.what, is_stream);
            let (hosts, paths) = match gets {
                Gets::LeftOut => Default::default(),
                _ => super::requests(plan, name, &part.section),
            };
            effects.push(Effect {
                object: engine.identity(part.route, Some(scope)),
                gateway: name.clone(),
                section: section_of(&part),
                listener: None,
                gets,
                hosts,
                paths,
                causes: BTreeSet::from([cause.clone()]),
                causing_section: section.into(),
                message: "the client certificate of the Gateway for backends is not available".into(),
                version: None,
            });
        }
    }
    effects
}

/// Returns what clients get of a part.
fn gets(what: Unreached, is_stream: bool) -> Gets {
    match (what, is_stream) {
        (Unreached::Share, true) => Gets::RefusedShare,
        (_, true) => Gets::Refused,
        (Unreached::Share, false) => Gets::Share { status: UNREACHABLE },
        (Unreached::All, false) => Gets::Status { status: UNREACHABLE },
        (Unreached::Copies, false) => Gets::LeftOut,
    }
}

/// Returns the section of a part; copies of requests are configured below it.
fn section_of(part: &UnreachablePart<'_>) -> Arc<str> {
    match (part.what, is_proxy(part.route)) {
        (Unreached::Copies, true) => format!("{}.services", part.section).into(),
        (Unreached::Copies, false) => format!("{}.filters", part.section).into(),
        _ => part.section.clone(),
    }
}

/// Returns the object at fault, with the section: the Secret if Envoys refuse it, or the Gateway with its reference.
fn cause(engine: &Engine, scope: &FallbackScope) -> (ObjectKey, &'static str) {
    let gateway = &scope.id.gateway;
    let is_refused = |secret: &&ObjectKey| scope.derived.broken.contains_key(&Node::whole((*secret).clone()));
    match engine.translator.identity(gateway).secret().filter(is_refused) {
        Some(secret) => (secret.clone(), ""),
        None => (gateway.clone(), GATEWAY_TLS),
    }
}
