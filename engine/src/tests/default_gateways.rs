//! Tests of default Gateways: which routes an edit of a scope translates again, what each Gateway has of a route, and
//! that incremental translation equals translation from scratch.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use holdfast_api::apis::gateway::route::PARENTS_MAX;
use holdfast_api::fault::Class;
use holdfast_api::settings::Settings;
use serde_json::Value;

use super::translated::Translated;
use crate::engine::{Engine, Event};
use crate::testing;
use crate::testing::present::Present;

const CLASS: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: holdfast}\n\
                     spec: {controllerName: holdfast.dev/gateway-controller}\n---\n";
const ALL: &str = "defaultScope: All";
const USED: &str = "useDefaultGateways: All";

/// Returns a Gateway with listeners of HTTP and TCP on this port and the next ones.
fn gateway(name: &str, port: u16, more: &str) -> String {
    let from = "allowedRoutes: {namespaces: {from: All}}";
    let (tls, tcp, udp) = (port + 1, port + 2, port + 3);
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: {name}, namespace: infra}}\n\
         spec:\n  gatewayClassName: holdfast\n  listeners:\n  - {{name: http, port: {port}, protocol: HTTP, {from}}}\n  \
         - {{name: tls, port: {tls}, protocol: TLS, tls: {{mode: Passthrough}}, {from}}}\n  \
         - {{name: tcp, port: {tcp}, protocol: TCP, {from}}}\n  \
         - {{name: udp, port: {udp}, protocol: UDP, {from}}}\n  {more}\n---\n"
    )
}

fn route(kind: &str, name: &str, more: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec: {{rules: [{{backendRefs: [{{name: absent, port: 80}}]}}], {more}}}\n---\n"
    )
}

fn named(gateway: &str) -> String {
    format!("parentRefs: [{{name: {gateway}, namespace: infra}}]")
}

/// Returns the name of the parent and the condition `Accepted` of each entry in the status of a route.
fn parents(engine: &Engine, name: &str) -> Vec<(String, String)> {
    let statuses = engine.statuses();
    let of_route = statuses.into_iter().find(|status| *status.object.name == *name && !status.object.kind.is_empty());
    let entries = of_route.and_then(|of| of.status["parents"].as_array().cloned()).unwrap_or_default();
    let accepted = |entry: &Value| {
        let conditions = entry["conditions"].as_array().cloned().unwrap_or_default();
        let accepted = conditions.into_iter().find(|condition| condition["type"] == "Accepted").unwrap();
        format!("{} {}", accepted["status"], accepted["reason"]).replace('"', "")
    };
    let named = entries.iter().map(|entry| (entry["parentRef"]["name"].as_str().unwrap().to_owned(), accepted(entry)));
    named.collect()
}

#[test]
fn an_edit_of_a_scope_concerns_the_routes_that_use_default_gateways() {
    let mut translated = Translated::new(Settings::default());
    let mut apply = |yaml: &str| translated.apply_routes(yaml);
    let routes = [route("HTTPRoute", "defaulted", USED), route("HTTPRoute", "named", &named("one"))].concat();
    apply(&format!("{CLASS}{}{}{routes}", gateway("one", 8000, ""), gateway("two", 8100, ALL)));
    assert_eq!(apply(&gateway("one", 8000, ALL)), ["defaulted"]);
    assert_eq!(apply(&gateway("one", 8000, ALL)), [""; 0], "nothing changed");
    let allowed = format!("{ALL}\n  allowedListeners: {{namespaces: {{from: All}}}}");
    assert_eq!(apply(&gateway("one", 8000, &allowed)), [""; 0], "the Gateway stays a default");
    assert_eq!(apply(&gateway("one", 8000, "")), ["defaulted"]);
}

#[test]
fn a_gateway_that_is_named_and_a_default_counts_a_route_once() {
    let both = format!("{USED}, {}", named("one"));
    let part = format!("{USED}, parentRefs: [{{name: one, namespace: infra, sectionName: http}}]");
    let routes = [route("HTTPRoute", "both", &both), route("HTTPRoute", "part", &part)].concat();
    let engine = testing::engine(&format!("{CLASS}{}{routes}", gateway("one", 8000, ALL)), Settings::default());
    let accepted = |name: &str| (name.to_owned(), "True Accepted".to_owned());
    assert_eq!(parents(&engine, "both"), [accepted("one")]);
    assert_eq!(parents(&engine, "part"), [accepted("one"), accepted("one")]);
    let listeners: Vec<_> = engine.gateways().into_iter().flat_map(|gateway| gateway.listeners).collect();
    let counts: Vec<_> = listeners.iter().map(|listener| (&*listener.name, listener.attached_routes)).collect();
    assert_eq!(counts, [("http", 2), ("tls", 0), ("tcp", 0), ("udp", 0)]);
}

/// The Gateway `lost` has only a listener that lost a conflict: the route is accepted at the other one.
#[test]
fn a_lost_listener_of_one_default_gateway_is_reported_there() {
    let lost = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: lost, namespace: infra}\n\
                spec:\n  gatewayClassName: holdfast\n  defaultScope: All\n  listeners:\n  \
                - {name: a, port: 90, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}\n  \
                - {name: b, port: 90, protocol: TCP, allowedRoutes: {namespaces: {from: All}}}\n---\n";
    let text = format!("{CLASS}{}{lost}{}", gateway("good", 8000, ALL), route("HTTPRoute", "defaulted", USED));
    let engine = testing::engine(&text, Settings::default());
    let found = parents(&engine, "defaulted");
    let expected = [("good", "True Accepted"), ("lost", "False NoReadyListeners")];
    assert_eq!(found, expected.map(|(name, accepted)| (name.to_owned(), accepted.to_owned())));
    let faults = engine.faults();
    let fault = faults.iter().find(|fault| fault.reason == "NoReadyListeners").unwrap();
    assert_eq!((&*fault.field, fault.class), ("spec.useDefaultGateways[infra/lost]", Class::Ignored));
}

#[test]
fn a_route_has_no_more_parents_than_a_status_has_room_for() {
    let gateways: String = (0..PARENTS_MAX + 3)
        .map(|index| gateway(&format!("g{index:02}"), 1000 + 10 * u16::try_from(index).unwrap(), ALL))
        .collect();
    let more = format!("{USED}, parentRefs: [{{name: g01, namespace: infra}}, {{name: g34, namespace: infra}}]");
    let text = format!("{CLASS}{gateways}{}", route("HTTPRoute", "defaulted", &more));
    let engine = testing::engine(&text, Settings::default());
    let names: Vec<String> = parents(&engine, "defaulted").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), PARENTS_MAX);
    assert_eq!((&*names[0], &*names[1], &*names[2], &*names[31]), ("g01", "g34", "g00", "g30"));
    let faults = engine.faults();
    let fault = faults.iter().find(|fault| fault.field == "spec.useDefaultGateways").unwrap();
    assert_eq!((fault.class, fault.reason), (Class::Ignored, "NotServed"));
    assert!(fault.message.contains("infra/g31"), "{}", fault.message);
}

/// Applies random scopes to Gateways and routes of all kinds, some of which cannot be read: the result is that of
/// translation from scratch.
#[test]
fn random_scopes_leave_the_same_as_from_scratch() {
    let scopes = ["", ALL, ALL, "defaultScope: None", "defaultScope: 3"];
    let uses = ["", USED, USED, "useDefaultGateways: None", "useDefaultGateways: [All]"];
    let kinds = ["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"];
    for seed in 1..=60 {
        let mut choose = holdfast_test_support::matches::choices(seed);
        let mut engine = testing::engine(CLASS, Settings::default());
        let mut present = Present::default();
        testing::events(CLASS).iter().for_each(|event| present.note(event));
        for _ in 0..25 {
            let event = match choose(8) {
                0 => {
                    let keys = present.keys();
                    let key = keys[choose(keys.len())].clone();
                    (&*key.kind != "GatewayClass").then_some(Event::Deleted(key)).into_iter().collect()
                }
                1..4 => {
                    let index = choose(3);
                    let port = 8000 + 100 * u16::try_from(index).unwrap();
                    testing::events(&gateway(["one", "two", "three"][index], port, scopes[choose(scopes.len())]))
                }
                _ => {
                    let at = ["", &named("one"), &named("three")][choose(3)].to_owned();
                    let spec = [at, uses[choose(uses.len())].to_owned()].join(", ");
                    let name = ["r", "s"][choose(2)];
                    testing::events(&route(kinds[choose(kinds.len())], name, spec.trim_start_matches(", ")))
                }
            };
            event.iter().for_each(|event| present.note(event));
            engine.handle(event);
        }
        let mut scratch = Engine::new(Settings::default());
        scratch.handle(present.events());
        assert_eq!(testing::served(&engine), testing::served(&scratch), "seed {seed}");
        assert_eq!(engine.faults(), scratch.faults(), "seed {seed}");
        assert_eq!(engine.statuses(), scratch.statuses(), "seed {seed}");
        assert_eq!(engine.graph().edges(), scratch.graph().edges(), "seed {seed}");
    }
}
