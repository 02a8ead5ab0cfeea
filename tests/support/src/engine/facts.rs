//! Facts of health: of a healthy Gateway, and of a shop with several faults.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::gateway::GROUP;
use holdfast_api::fault::Class;
use holdfast_api::object::Source;
use holdfast_check::time::Moment;
use holdfast_fallback::view::{GatewayState, Identity, ServedState};

use holdfast_engine::health::facts::{Effect, Facts, GatewayFacts, ObjectProblem};
use holdfast_engine::health::inputs::{FileProblem, SourceState};
use holdfast_engine::health::view::{DetectedBy, Gets};

/// 2026-11-20T10:00:00Z
const TEN: i64 = 1_795_168_800;

/// Identity of an object of Gateway API.
pub fn identity(kind: &str, namespace: &str, name: &str) -> Identity {
    Identity {
        group: GROUP.into(),
        kind: kind.into(),
        version: "v1".into(),
        namespace: namespace.into(),
        name: name.into(),
        id: format!("uid-{name}").into(),
    }
}

/// A fault of an object, used by the Gateway `infra/public`.
pub fn found(object: Identity, field: &str, class: Class, reason: &str, message: &str) -> ObjectProblem {
    ObjectProblem {
        object,
        generation: Some(5),
        field: field.into(),
        class,
        reason: reason.into(),
        message: message.into(),
        detected: DetectedBy::Translation,
        gateways: BTreeSet::from([Arc::from("infra/public")]),
        since: Some(Moment(TEN)),
        used: true,
        is_served: false,
        is_unreadable: false,
        cause: None,
        not_backfilled: None,
    }
}

/// An effect on the clients of the Gateway `infra/public`.
pub fn effect(object: Identity, section: &str, gets: Gets, causes: &[&Identity]) -> Effect {
    Effect {
        object,
        gateway: "infra/public".into(),
        section: section.into(),
        listener: None,
        gets,
        hosts: BTreeSet::from([Arc::from("shop.example.com")]),
        paths: BTreeSet::from([Arc::from("/cart/*")]),
        causes: causes.iter().map(|cause| cause.key()).collect(),
        causing_section: "".into(),
        message: String::new(),
        version: None,
    }
}

/// Facts of a Gateway with one up-to-date Envoy, and with all inputs read.
pub fn facts() -> Facts {
    let json = r#"{"name":"infra/public","state":"current","generation":3,
        "envoys":{"acknowledged":1,"refused":0,"pending":0}}"#;
    let mut state: GatewayState = serde_json::from_str::<GatewayState>(json).unwrap();
    state.settled = true;
    let mut facts = Facts::default();
    facts.gateways.push(GatewayFacts {
        object: identity("Gateway", "infra", "public"),
        state,
        listeners: vec!["127.0.0.1:8080".into()],
        refusing: Default::default(),
        provisioning: None,
    });
    facts.outside.connected.insert("infra/public".into(), 1);
    facts.outside.input = SourceState { name: "manifests".into(), read: true, objects: 4, ..SourceState::default() };
    facts
}

/// Facts of two routes of a missing Service, one backfilled route that Envoy refuses, and a misspelt target.
pub fn broken_shop() -> Facts {
    let mut facts = facts();
    facts.gateways[0].state.state = ServedState::Fallback;
    let missing = "Service shop/pay does not exist";
    for (index, name) in ["refunds", "pay"].iter().enumerate() {
        let object = identity("HTTPRoute", "shop", name);
        let place = Source { file: "manifests/pay.yaml".into(), line: 1 + u32::try_from(index).unwrap() };
        facts.outside.places.insert(object.key(), place);
        let field = "spec.rules[0].backendRefs[0].name";
        facts.found.push(found(object.clone(), field, Class::Referential, "BackendNotFound", missing));
        facts.effects.push(effect(object, "rules[0]", Gets::Status { status: 500 }, &[]));
    }
    let cart = identity("HTTPRoute", "shop", "cart");
    let refused = found(cart.clone(), "spec.rules[1]", Class::Invalid, "Refused", "missing ]: [");
    facts.found.push(ObjectProblem { detected: DetectedBy::Nack, ..refused });
    let last_valid = Gets::LastValid { generation: 4, since: Moment(TEN - 86_400), except: BTreeSet::new() };
    facts.effects.push(effect(cart.clone(), "", last_valid, &[&cart]));
    let guard = identity("TrafficPolicy", "office", "only-office");
    let target = "HTTPRoute shop/carts does not exist";
    facts.found.push(found(guard, "spec.targetRefs[0]", Class::Ignored, "TargetNotFound", target));
    let message = "unclosed bracket '{'".to_owned();
    let file = FileProblem { of: "manifests/more.yaml:8:11".into(), is_read: true, message };
    facts.outside.input.files.push(file);
    facts
}
