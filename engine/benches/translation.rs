//! Speed of translation, as ratios to floors that are measured in the same run.
//!
//! `cargo bench -p holdfast-engine --bench translation [-- ROUTES…]` prints a table for 1,000, 10,000 and 50,000 routes,
//! each once with 100 routes in a RouteConfiguration and once with all in one:
//!
//! * full: JSON in memory to all xDS bytes and versions, beside the floor: decoding the same JSON with serde and
//!   encoding the same routes with prost;
//! * one change: from the event to the bytes to publish, 50th and 99th percentile;
//! * pushed: bytes of the resources that one change makes new; and nothing for a change without effect;
//! * memory: growth of the resident set for a route.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod measured;

use std::hint::black_box;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use holdfast_api::settings::Settings;
use holdfast_engine::engine::Engine;
use measured::{event, message, new_bytes, percentile, published, silence};
use prost::Message;
use serde_json::json;

/// Changes that are timed.
const CHANGES: usize = 2000;

fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![1_000, 10_000, 50_000] } else { sizes };
    println!(
        "routes | in a table | full ms | of it decoding | floor ms | ratio | change p50 us | p99 us | pushed bytes | resource bytes | no effect | RSS KB/route"
    );
    for routes in sizes {
        for per_table in [100, routes] {
            measure(routes, per_table);
        }
    }
}

fn measure(routes: usize, per_table: usize) {
    let world: Vec<Vec<u8>> = base(routes.div_ceil(per_table))
        .into_iter()
        .chain((0..routes).flat_map(|index| route(index, per_table, "a")))
        .collect();
    let floor = floor(routes, per_table);
    let before = resident_kib();
    let started = Instant::now();
    let mut engine = Engine::new(Settings::standalone());
    let events = world.iter().map(|json| event(json)).collect();
    let decoded = started.elapsed();
    let actions = engine.handle(events);
    let full = started.elapsed();
    let mut last = published(actions).expect("nothing was published");
    let grown = resident_kib().saturating_sub(before);

    let mut times: Vec<Duration> = Vec::with_capacity(CHANGES);
    let (mut pushed, mut resource) = (0, 0);
    for change in 0..CHANGES {
        let index = (change * 7919) % routes;
        let json = route(index, per_table, if change % 2 == 0 { "b" } else { "c" }).pop().unwrap();
        let event = event(&json);
        let started = Instant::now();
        let actions = engine.handle(vec![event]);
        times.push(started.elapsed());
        if let Some(new) = published(actions) {
            (pushed, resource) = new_bytes(&last, &new);
            last = new;
        }
    }
    let same = route(0, per_table, "same").pop().unwrap();
    engine.handle(vec![event(&same)]);
    let silent = engine.handle(vec![event(&same)]).is_empty();
    println!(
        "{routes:6} | {per_table:10} | {:7.1} | {:14.1} | {:8.1} | {:5.2} | {:13.1} | {:6.1} | {pushed:12} | {resource:14} | {:9} | {:.1}",
        full.as_secs_f64() * 1e3,
        decoded.as_secs_f64() * 1e3,
        floor.as_secs_f64() * 1e3,
        full.as_secs_f64() / floor.as_secs_f64(),
        percentile(&mut times, 50),
        percentile(&mut times, 99),
        silence(silent),
        grown as f64 / routes as f64,
    );
}

/// What no translation can do without: decode the JSON, encode the messages.
fn floor(routes: usize, per_table: usize) -> Duration {
    let documents: Vec<Vec<u8>> = (0..routes).flat_map(|index| route(index, per_table, "a").pop()).collect();
    let message = message("httproute/team/route-1234/0/0", PathSpecifier::PathSeparatedPrefix("/path/1234".into()));
    let started = Instant::now();
    for document in &documents {
        black_box(serde_json::from_slice::<gateway_api::httproutes::HttpRoute>(document).unwrap());
        for _ in 0..2 {
            black_box(black_box(&message).encode_to_vec());
        }
    }
    started.elapsed()
}

fn base(tables: usize) -> Vec<Vec<u8>> {
    let listeners = |gateway: usize| -> Vec<_> {
        (0..64.min(tables - gateway * 64))
            .map(|index| {
                let port = 10_000 + gateway * 64 + index;
                json!({"name": format!("l{port}"), "port": port, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}})
            })
            .collect()
    };
    let mut objects = vec![json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "holdfast"},
        "spec": {"controllerName": "holdfast.dev/gateway-controller"}
    })];
    objects.extend((0..tables.div_ceil(64)).map(|gateway| {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": format!("gw{gateway}"), "namespace": "infra"},
            "spec": {"gatewayClassName": "holdfast", "listeners": listeners(gateway)}
        })
    }));
    objects.extend((0..100).map(|index| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("backend-{index}"), "namespace": "team"},
            "spec": {"ports": [{"port": 80}]}
        })
    }));
    objects.iter().map(|object| serde_json::to_vec(object).unwrap()).collect()
}

/// A route of about 1.3 KB with two rules, as in the published floors.
fn route(index: usize, per_table: usize, value: &str) -> Vec<Vec<u8>> {
    let port = 10_000 + index / per_table;
    let rule = |number: usize| {
        json!({
            "matches": [{"path": {"type": "PathPrefix", "value": format!("/team-{index}/service-{number}")},
                "headers": [{"name": "x-version", "value": value}]}],
            "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier":
                {"set": [{"name": "x-team", "value": format!("team-{index}")}], "remove": ["x-internal"]}}],
            "timeouts": {"request": "10s"},
            "backendRefs": [{"name": format!("backend-{}", index % 100), "port": 80}]
        })
    };
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {
            "name": format!("route-{index}"), "namespace": "team", "uid": format!("00000000-0000-0000-0000-{index:012}"),
            "resourceVersion": "123456", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app.kubernetes.io/name": format!("route-{index}"), "team": "team"},
            "annotations": {"example.com/owner": "somebody@example.com"},
            "managedFields": [{"manager": "kubectl", "operation": "Apply", "apiVersion": "gateway.networking.k8s.io/v1",
                "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:rules": {}, "f:hostnames": {}}}}]
        },
        "spec": {
            "parentRefs": [{"name": format!("gw{}", (port - 10_000) / 64), "namespace": "infra", "sectionName": format!("l{port}")}],
            "hostnames": [format!("host-{}.example.com", index % 1000)],
            "rules": [rule(0), rule(1)]
        }
    });
    vec![serde_json::to_vec(&route).unwrap()]
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
