//! Tests of translation as a whole: incremental translation must equal translation from scratch, in any order of
//! events.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use holdfast_api::fault::{Class, Fault};
use holdfast_api::settings::Settings;
use holdfast_api::status::ObjectStatus;
use holdfast_graph::ObjectKey;
use holdfast_xds::{ResourceType, Snapshot};

use super::translated::Translated;
use crate::engine::{Action, Engine, Event};
use crate::testing;
use crate::testing::present::Present;

const BASE: &str = testing::SAMPLE;

fn fleet(engine: &Engine) -> Snapshot {
    engine.fleet("infra/public").expect("the Gateway is served").clone()
}

#[test]
fn serves_a_route_and_replaces_the_broken_rule() {
    let engine = testing::engine(BASE, Settings::standalone());
    let snapshot = fleet(&engine);
    let names = |kind| snapshot.of(kind).keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(ResourceType::Listener), ["listener/8080"]);
    assert_eq!(names(ResourceType::Route), ["http/8080"]);
    assert_eq!(names(ResourceType::Cluster), ["service/shop/cart/80", "service/shop/cart/80/h2c"]);
    assert_eq!(names(ResourceType::Endpoints), ["service/shop/cart/80"]);
    let faults: Vec<String> = engine.faults().iter().map(|fault| format!("{} {}", fault.field, fault.reason)).collect();
    assert_eq!(
        faults,
        ["spec.rules[1].matches[0].path.value UnsupportedValue", "spec.rules[2].backendRefs[0].name BackendNotFound"]
    );
    let replaced: Vec<_> = engine.replacements().into_iter().map(|r| (r.section, r.response)).collect();
    assert_eq!(replaced, [("rules[1]".to_owned(), Some(404)), ("rules[2]".to_owned(), Some(500))]);
}

#[test]
fn events_in_any_order_give_the_same_bytes() {
    let whole = testing::served(&testing::engine(BASE, Settings::standalone()));
    let events = testing::events(BASE);
    let mut order: Vec<usize> = (0..events.len()).collect();
    for shuffle in 0..60_usize {
        let at = (shuffle * 7919 + 3) % order.len();
        order.swap(shuffle % events.len(), at);
        let mut engine = Engine::new(Settings::standalone());
        for index in &order {
            engine.handle(vec![events[*index].clone()]);
        }
        assert_eq!(testing::served(&engine), whole, "order {order:?}");
    }
}

#[test]
fn deleting_and_applying_again_ends_where_it_began() {
    let events = testing::events(BASE);
    let mut engine = Engine::new(Settings::standalone());
    engine.handle(events.clone());
    let whole = testing::served(&engine);
    for event in &events {
        let Event::Applied(object, _) = event else { panic!("all objects decode") };
        engine.handle(vec![Event::Deleted(object.key.clone())]);
        engine.handle(vec![event.clone()]);
        assert_eq!(testing::served(&engine), whole, "after {}", object.key);
    }
}

#[test]
fn a_change_without_effect_publishes_nothing() {
    let mut engine = testing::engine(BASE, Settings::standalone());
    let mut events = testing::events(BASE);
    for event in &mut events {
        let Event::Applied(object, _) = event else { panic!("all objects decode") };
        Arc::make_mut(&mut object.metadata.annotations).insert("note".into(), "changed".into());
        object.metadata.generation += 1;
    }
    assert!(engine.handle(events).is_empty());
}

#[test]
fn ports_of_other_processes_count_only_where_a_listener_has_them() {
    let mut engine = testing::engine(BASE, Settings::standalone());
    let taken = |sockets: &[&str]| sockets.iter().map(|at| (at.parse().unwrap(), Arc::from("nginx"))).collect();
    assert!(!engine.translator.set_taken_ports(taken(&["0.0.0.0:9999", "[::1]:80"])), "nothing has these ports");
    assert!(engine.translator.set_taken_ports(taken(&["0.0.0.0:9999", "0.0.0.0:8080"])), "a listener has the port");
    engine.handle(Vec::new());
    engine.handle(vec![Event::PortsTaken(taken(&["0.0.0.0:8080"]))]);
    assert!(!engine.translator.set_taken_ports(taken(&["0.0.0.0:8080"])), "nothing has changed");
    assert!(engine.translator.set_taken_ports(taken(&[])), "the port is free");
}

#[test]
fn a_change_of_endpoints_changes_one_resource() {
    let mut engine = testing::engine(BASE, Settings::standalone());
    let before = testing::served(&engine);
    let moved = BASE.replace("127.0.0.1]", "127.0.0.2]");
    let actions = engine.handle(testing::events(&moved));
    assert!(matches!(actions.as_slice(), [Action::Publish { .. }]));
    let after = testing::served(&engine);
    let changed: Vec<_> = after.iter().filter(|row| !before.contains(row)).map(|row| row.1).collect();
    assert_eq!(changed, [ResourceType::Endpoints]);
}

/// The endpoints of the Service are known before, since another Gateway uses it.
#[test]
fn a_service_that_a_second_gateway_begins_to_use_has_its_endpoints_there() {
    let mut engine = testing::engine(BASE, Settings::standalone());
    let second = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: second, namespace: shop}\n\
                  spec: {gatewayClassName: holdfast, listeners: [{name: http, port: 8081, protocol: HTTP}]}\n";
    engine.handle(testing::events(second));
    let endpoints = |engine: &Engine| -> Vec<String> {
        let snapshot = engine.fleet("shop/second").expect("the Gateway is served");
        snapshot.of(ResourceType::Endpoints).keys().map(ToString::to_string).collect()
    };
    assert!(endpoints(&engine).is_empty());
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: late, namespace: shop}\n\
                 spec: {parentRefs: [{name: second}], rules: [{backendRefs: [{name: cart, port: 80}]}]}\n";
    engine.handle(testing::events(route));
    assert_eq!(endpoints(&engine), ["service/shop/cart/80"]);
}

#[test]
fn broken_objects_leave_the_same_as_from_scratch() {
    random_changes_leave_the_same_as_from_scratch(BASE);
}

#[test]
fn broken_proxies_leave_the_same_as_from_scratch() {
    random_changes_leave_the_same_as_from_scratch(PROXIES);
}

/// Two roots with a child in common, a child of that child, and a child that no root includes.
const PROXIES: &str = "
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {name: one, namespace: shop}
spec: {virtualhost: {fqdn: one.example.com}, includes: [{name: child, conditions: [{prefix: /a}]}]}
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {name: two, namespace: shop}
spec: {virtualhost: {fqdn: two.example.com}, includes: [{name: child}, {name: own, conditions: [{prefix: /own}]}]}
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {name: child, namespace: shop}
spec: {routes: [{services: [{name: cart, port: 80}]}], includes: [{name: below, conditions: [{prefix: /b}]}]}
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {name: below, namespace: shop}
spec: {routes: [{services: [{name: cart, port: 80}]}]}
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {name: own, namespace: shop}
spec: {routes: [{directResponsePolicy: {statusCode: 200}}]}
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {name: orphan, namespace: shop}
spec: {routes: [{directResponsePolicy: {statusCode: 200}}]}
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {ports: [{port: 80}]}
";

/// Applies random changes with broken objects: incremental translation must end where translation from scratch does,
/// and every rule that is not served as written must have a fault.
fn random_changes_leave_the_same_as_from_scratch(sample: &str) {
    let documents = testing::documents(sample);
    for seed in 1..=150_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut choose = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if below == 0 { 0 } else { usize::try_from(state >> 33).unwrap_or(0) % below }
        };
        let mut engine = testing::engine(sample, Settings::standalone());
        let mut present = Present::default();
        testing::events(sample).iter().for_each(|event| present.note(event));
        for _ in 0..12 {
            let event = match choose(5) {
                0 => {
                    let keys = present.keys();
                    keys.get(choose(keys.len())).cloned().map(Event::Deleted)
                }
                _ => testing::event(testing::mutate::mutated(&documents, &mut choose)),
            };
            let Some(event) = event else { continue };
            present.note(&event);
            engine.handle(vec![event]);
            // Some collections follow several events.
            if choose(2) == 0 {
                let collected: Vec<ObjectStatus> =
                    engine.collect_statuses().values().map(|status| ObjectStatus::clone(status)).collect();
                assert_eq!(collected, engine.statuses(), "seed {seed}");
            }
        }
        let mut scratch = Engine::new(Settings::standalone());
        scratch.handle(present.events());
        assert_eq!(testing::served(&engine), testing::served(&scratch), "seed {seed}");
        assert_eq!(engine.faults(), scratch.faults(), "seed {seed}");
        assert_eq!(engine.statuses(), scratch.statuses(), "seed {seed}");
        assert_eq!(engine.graph().edges(), scratch.graph().edges(), "seed {seed}");
        let faults = engine.faults();
        for replaced in engine.replacements() {
            assert!(
                faults.iter().any(|fault| fault.object == replaced.object),
                "seed {seed}: {replaced:?} is not told"
            );
        }
    }
}

#[test]
fn an_edit_of_one_tree_of_proxies_leaves_the_others_alone() {
    let tree = |name: &str, path: &str| {
        format!(
            "apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {{name: {name}, namespace: shop}}
spec: {{virtualhost: {{fqdn: {name}.example.com}}, includes: [{{name: {name}-child}}]}}
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {{name: {name}-child, namespace: shop}}
spec: {{routes: [{{conditions: [{{prefix: {path}}}], directResponsePolicy: {{statusCode: 200}}}}]}}
---
"
        )
    };
    let mut translated = Translated::new(Settings::standalone());
    let mut apply = |yaml: &str| translated.apply_routes(yaml);
    let all: String = ["a", "b", "c"].map(|name| tree(name, "/x")).concat();
    assert_eq!(apply(&all), ["a", "a-child", "b", "b-child", "c", "c-child"]);
    assert_eq!(apply(&tree("b", "/y")), ["b", "b-child"]);
}

#[test]
fn listeners_of_http_proxies_show_their_roots() {
    let proxy = |name: &str, tls: &str| {
        format!(
            "---\napiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec:\n  virtualhost: {{fqdn: {name}.example.com{tls}}}\n  routes:\n  - requestRedirectPolicy: \
             {{statusCode: 301, path: /}}\n"
        )
    };
    let text = format!("{}{}", proxy("one", ""), proxy("two", ", tls: {secretName: absent}"));
    let engine = testing::engine(&text, Settings::standalone());
    let listeners = engine.gateways().into_iter().flat_map(|gateway| gateway.listeners);
    let counts: Vec<_> = listeners.map(|listener| (listener.name.to_string(), listener.attached_routes)).collect();
    // The host without a certificate has no routes: connections to it are closed.
    assert_eq!(counts, [("http".to_owned(), 2), ("two.example.com".to_owned(), 0)]);
}

/// The specification counts every accepted route, also one that gets no connections because an older route has them.
#[test]
fn routes_of_a_port_are_attached_beside_an_older_one() {
    let route = |kind: &str, name: &str, year: u16| {
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: shop, \
             creationTimestamp: \"{year}-01-01T00:00:00Z\"}}\nspec:\n  parentRefs: [{{name: ports, namespace: infra}}]\n  \
             rules: [{{backendRefs: [{{name: absent, port: 80}}]}}]\n"
        )
    };
    let gateway = "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: ports, namespace: infra}\n\
                   spec:\n  gatewayClassName: holdfast\n  listeners:\n  \
                   - {name: tcp, port: 7000, protocol: TCP, allowedRoutes: {namespaces: {from: All}}}\n  \
                   - {name: udp, port: 7000, protocol: UDP, allowedRoutes: {namespaces: {from: All}}}\n";
    let kinds = ["TCPRoute", "UDPRoute"];
    let routes: String = kinds.map(|kind| route(kind, "older", 2025) + &route(kind, "newer", 2026)).concat();
    let engine = testing::engine(&format!("{BASE}{gateway}{routes}"), Settings::default());
    let listeners = engine.gateways().into_iter().flat_map(|gateway| gateway.listeners);
    let of_ports = listeners.filter(|listener| listener.declared_port == 7000);
    let counts: Vec<_> = of_ports.map(|listener| (listener.name.to_string(), listener.attached_routes)).collect();
    assert_eq!(counts, [("tcp".to_owned(), 2), ("udp".to_owned(), 2)]);
}

/// A policy that is written again in unreadable form while its deletion waits for a successor is not deleted.
#[test]
fn an_unreadable_successor_of_a_deleted_policy_counts() {
    let mut engine = testing::engine(BASE, Settings::standalone());
    let policy = "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: guard, namespace: shop}\n\
                  spec:\n  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: cart}]\n  \
                  rbac: {action: Deny, policy: {matchExpressions: [\"true\"]}}\n";
    engine.handle(std::iter::once(Event::Clock(1_000)).chain(testing::events(policy)).collect());
    let key = ObjectKey::new("gateway.kgateway.dev", "TrafficPolicy", "shop", "guard");
    engine.handle(vec![Event::Deleted(key.clone())]);
    assert!(engine.is_there(&key), "the deletion waits");
    engine.handle(vec![Event::Unusable(key.clone(), Vec::new())]);
    engine.handle(vec![Event::Clock(60_000)]);
    assert!(engine.is_there(&key));
    engine.handle(vec![Event::Deleted(key.clone())]);
    engine.handle(vec![Event::Clock(120_000)]);
    assert!(!engine.is_there(&key));
}

#[test]
fn what_nothing_depends_on_is_taken_over_without_translation() {
    let events = testing::events(BASE);
    let mut engine = Engine::new(Settings::standalone());
    engine.handle(events.clone());
    let known = |events: &[Event]| {
        events.iter().find_map(|event| match event {
            Event::Applied(object, faults) if &*object.key.kind == "HTTPRoute" => {
                Some((object.clone(), faults.clone()))
            }
            _ => None,
        })
    };
    let (object, faults) = known(&events).unwrap();
    let with = |annotation: &str, generation: i64| {
        let mut object = object.clone();
        object.metadata.annotations = Arc::new([(annotation.to_owned(), "x".to_owned())].into());
        object.metadata.generation += generation;
        object
    };
    let key = object.key.clone();
    let annotated =
        |engine: &Engine| engine.objects().get(&key).is_some_and(|now| !now.metadata.annotations.is_empty());
    for (changed, faults) in [
        (with("holdfast.dev/fallback", 0), faults.clone()),
        (with("example.com/note", 1), faults.clone()),
        (
            with("example.com/note", 0),
            Vec::from([Fault::new(&key, Class::Invalid, "spec", "Invalid", "another fault")]),
        ),
    ] {
        assert!(engine.refresh(Event::Applied(changed, faults)).is_some());
        assert!(!annotated(&engine), "it has to be handled");
    }
    let before = testing::served(&engine);
    assert!(engine.refresh(Event::Applied(with("example.com/note", 0), faults.clone())).is_none());
    assert!(annotated(&engine));
    assert_eq!(testing::served(&engine), before);
    assert!(engine.refresh(Event::Deleted(key.clone())).is_some());
    engine.handle(vec![Event::Deleted(key.clone())]);
    assert!(engine.refresh(Event::Applied(object, faults)).is_some(), "an object that is not known");
}
