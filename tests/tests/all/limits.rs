//! Objects over a limit: they get a replacement or a fault, cost no more than the limit, and affect no other object.

use std::fmt::Write;

use holdfast_api::settings::Settings;
use holdfast_engine::engine::Engine;
use holdfast_test_support as testing;
use holdfast_xds::{ResourceType, to_json};
use serde_json::Value;

const SHOP: &str = include_str!("../../golden/include/shop.yaml");

/// Returns an engine with the shop, a good route, and a route with the given rules.
fn engine(rules: &str) -> Engine {
    let route = |name: &str, rules: &str| {
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec: {{parentRefs: [{{name: public, namespace: infra}}], hostnames: [{name}.example.com], rules: [{rules}]}}\n"
        )
    };
    let good = route("good", "{backendRefs: [{name: a, port: 80}]}");
    testing::engine(&format!("{SHOP}{good}{}", route("large", rules)), Settings::standalone())
}

/// Returns the routes of a host.
fn routes(engine: &Engine, host: &str) -> Vec<Value> {
    let snapshot = engine.fleet("infra/public").unwrap();
    let table = to_json(ResourceType::Route, &snapshot.get(ResourceType::Route, "http/8080").unwrap().body);
    let hosts = table["virtualHosts"].as_array().unwrap();
    let found = hosts.iter().find(|known| known["name"] == host).unwrap();
    found["routes"].as_array().unwrap().clone()
}

fn is_served(engine: &Engine) {
    let good = routes(engine, "good.example.com");
    assert_eq!(good[0]["route"]["cluster"], "service/shop/a/80");
    assert_eq!(testing::unreported(engine), Vec::<String>::new());
}

#[test]
fn ten_thousand_matches_of_one_rule() {
    let mut matches = String::new();
    for index in 0..10_000 {
        write!(matches, "{{path: {{value: /m{index}}}}},").unwrap();
    }
    let engine = engine(&format!("{{matches: [{matches}], backendRefs: [{{name: a, port: 80}}]}}"));
    is_served(&engine);
    let large = routes(&engine, "large.example.com");
    assert_eq!(large.len(), 1, "too many to close them one by one: one answer for all requests");
    assert!(large.iter().all(|route| route["directResponse"]["status"] == 404));
    assert_eq!(large.last().unwrap()["match"]["prefix"], "/");
    assert!(engine.faults().iter().any(|fault| fault.field == "spec.rules[0].matches"));
}

#[test]
fn a_thousand_rules_of_one_route() {
    let mut rules = String::new();
    for index in 0..1000 {
        write!(rules, "{{matches: [{{path: {{value: /r{index}}}}}], backendRefs: [{{name: a, port: 80}}]}},").unwrap();
    }
    let engine = engine(&rules);
    is_served(&engine);
    let large = routes(&engine, "large.example.com");
    let forwarded = large.iter().filter(|route| route.get("route").is_some()).count();
    assert_eq!(forwarded, 16);
    assert_eq!(large.len(), 1000, "the rules over the limit are closed at their own matches");
}

#[test]
fn nesting_as_deep_as_files_may_have_it() {
    let deep = format!("{}{}", "[".repeat(50), "]".repeat(50));
    let engine = engine(&format!("{{matches: {deep}, backendRefs: [{{name: a, port: 80}}]}}"));
    is_served(&engine);
}

#[test]
fn regular_expressions_that_grow() {
    let rules = "{matches: [{path: {type: RegularExpression, value: '/((a{1,100}){1,100}){1,100}'}}], backendRefs: [{name: a, port: 80}]}";
    let engine = engine(rules);
    is_served(&engine);
    assert_eq!(routes(&engine, "large.example.com")[0]["directResponse"]["status"], 404);
}

#[test]
fn listeners_of_many_sets() {
    let mut objects =
        SHOP.replacen("  listeners:\n", "  allowedListeners: {namespaces: {from: All}}\n  listeners:\n", 1);
    for set in 0..34 {
        write!(
            objects,
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\n\
             metadata: {{name: s, namespace: n{set:02}}}\n\
             spec:\n  parentRef: {{name: public, namespace: infra}}\n  listeners:\n"
        )
        .unwrap();
        for listener in 0..64 {
            writeln!(
                objects,
                "  - {{name: l{listener}, port: 8080, protocol: HTTP, hostname: l{listener}.n{set}.example.com}}"
            )
            .unwrap();
        }
    }
    let engine = testing::engine(&objects, Settings::standalone());
    let listeners = &engine.gateways()[0].listeners;
    assert_eq!(listeners.iter().filter(|listener| listener.serving).count(), 1 + 2048);
    let refused: Vec<_> = listeners.iter().filter(|listener| !listener.serving).map(|l| l.name.to_string()).collect();
    assert_eq!(refused.len(), 128);
    assert!(refused.iter().all(|name| name.starts_with("n32/") || name.starts_with("n33/")), "{refused:?}");
    assert_eq!(engine.faults().iter().filter(|fault| fault.reason == "TooManyListeners").count(), 128);
}
