//! Speed of policies, as a ratio to a floor that is measured in the same run.
//!
//! `cargo bench -p holdfast-engine --bench policies [-- ROUTES…]` prints a table for 2,000 routes with a quarter as many
//! policies, each of one route, beside one of the Gateway and a GatewayExtension that 20 of the policies use:
//!
//! * full: JSON in memory to all xDS bytes and versions, beside the floor: decoding the same JSON with serde and encoding
//!   the same routes with prost;
//! * an edit of a policy of a route, of the Gateway's policy, of the extension: 50th percentile; and the floor of one:
//!   decoding it and encoding its route;
//! * pushed: bytes of the resources that an edit of each kind makes new; and nothing for an edit without effect.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod measured;

use std::hint::black_box;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use holdfast_api::settings::Settings;
use holdfast_engine::engine::Engine;
use measured::{event, message, new_bytes, percentile, published, silence};
use prost::Message;
use serde_json::{Value, json};

/// Edits of each kind that are timed.
const EDITS: usize = 200;
/// Routes of a policy.
const ROUTES_EACH: usize = 4;
/// Policies that use the extension.
const EXTENSION_POLICIES: usize = 20;
/// Routes of a host.
const OF_HOST: usize = 10;

fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![2_000] } else { sizes };
    println!(
        "routes | policies | full ms | floor ms | ratio | edit of | p50 us | floor us | ratio | pushed bytes | no effect"
    );
    sizes.into_iter().for_each(measure);
}

fn measure(routes: usize) {
    let policies = routes / ROUTES_EACH;
    let written: Vec<Value> = (0..routes).map(route).chain((0..policies).map(|index| policy(index, 10))).collect();
    let floor = floor(&written);
    let mut engine = Engine::new(Settings::standalone());
    let documents: Vec<Vec<u8>> =
        base().iter().chain(&written).map(|value| serde_json::to_vec(value).unwrap()).collect();
    let started = Instant::now();
    let events = documents.iter().map(|json| event(json)).collect();
    let mut last = published(engine.handle(events)).expect("nothing was published");
    let full = started.elapsed();
    print!(
        "{routes:6} | {policies:8} | {:7.1} | {:8.1} | {:5.2}",
        ms(full),
        ms(floor),
        full.as_secs_f64() / floor.as_secs_f64()
    );
    // One edit: its JSON decoded, and the messages of what it is about encoded.
    let edits: [(&str, &dyn Fn(usize) -> Value); 3] = [
        ("a route's policy", &|edit| {
            policy((edit * 7919) % (policies - EXTENSION_POLICIES) + EXTENSION_POLICIES, 11 + edit)
        }),
        ("the Gateway's policy", &|edit| wide(11 + edit)),
        ("an extension", &|edit| extension(11 + edit)),
    ];
    for (index, (what, edited)) in edits.into_iter().enumerate() {
        let mut times: Vec<Duration> = Vec::with_capacity(EDITS);
        let mut floors: Vec<Duration> = Vec::with_capacity(EDITS);
        let mut pushed = 0;
        for edit in 0..EDITS {
            let json = serde_json::to_vec(&edited(edit)).unwrap();
            floors.push(self::floor(&[edited(edit)]));
            let started = Instant::now();
            let actions = engine.handle(vec![event(&json)]);
            times.push(started.elapsed());
            if let Some(new) = published(actions) {
                pushed = new_bytes(&last, &new).0;
                last = new;
            }
        }
        let silent = engine.handle(vec![event(&serde_json::to_vec(&edited(EDITS - 1)).unwrap())]).is_empty();
        let (time, floor) = (percentile(&mut times, 50), percentile(&mut floors, 50));
        let before = if index == 0 { "" } else { "       |          |         |          |      " };
        println!("{before} | {what} | {time:.1} | {floor:.1} | {:.1} | {pushed} | {}", time / floor, silence(silent));
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// What no translation can do without: decode the JSON, encode a message for each object.
fn floor(objects: &[Value]) -> Duration {
    let documents: Vec<Vec<u8>> = objects.iter().map(|value| serde_json::to_vec(value).unwrap()).collect();
    let message = message("httproute/team/route-1234/0/0", PathSpecifier::PathSeparatedPrefix("/path/1234".into()));
    let started = Instant::now();
    for document in &documents {
        black_box(serde_json::from_slice::<Value>(document).unwrap());
        black_box(black_box(&message).encode_to_vec());
    }
    started.elapsed()
}

fn base() -> Vec<Value> {
    let service = |name: String| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "team"},
            "spec": {"ports": [{"port": 80}]}
        })
    };
    let mut objects = vec![
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "holdfast"},
            "spec": {"controllerName": "holdfast.dev/gateway-controller"}
        }),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "public", "namespace": "team"},
            "spec": {"gatewayClassName": "holdfast", "listeners": [{"name": "http", "port": 8080, "protocol": "HTTP"}]}
        }),
        service("auth".into()),
        wide(10),
        extension(10),
    ];
    objects.extend((0..100).map(|index| service(format!("backend-{index}"))));
    objects
}

fn route(index: usize) -> Value {
    let rule = |number: usize| {
        json!({
            "name": format!("rule-{number}"),
            "matches": [{"path": {"type": "PathPrefix", "value": format!("/team-{index}/service-{number}")}}],
            "backendRefs": [{"name": format!("backend-{}", index % 100), "port": 80}]
        })
    };
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": format!("route-{index}"), "namespace": "team", "uid": format!("00000000-0000-0000-0000-{index:012}")},
        "spec": {
            "parentRefs": [{"name": "public"}],
            "hostnames": [format!("host-{}.example.com", index / OF_HOST)],
            "rules": [rule(0), rule(1)]
        }
    })
}

fn traffic_policy(name: &str, target: &Value, fields: &Value) -> Value {
    let mut spec = fields.clone();
    spec["targetRefs"] = json!([target]);
    json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")}, "spec": spec
    })
}

/// A policy of one route in four.
fn policy(index: usize, value: usize) -> Value {
    let mut fields = json!({
        "timeouts": {"request": format!("{value}s")},
        "rateLimit": {"local": {"tokenBucket": {"maxTokens": value, "tokensPerFill": 1, "fillInterval": "1s"}}},
    });
    if index < EXTENSION_POLICIES {
        fields["extAuth"] = json!({"extensionRef": {"name": "auth"}});
    }
    let name = format!("route-{}", index * ROUTES_EACH);
    let target = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name});
    traffic_policy(&format!("policy-{index}"), &target, &fields)
}

fn wide(value: usize) -> Value {
    let target = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public"});
    let bucket = json!({"maxTokens": value, "tokensPerFill": 1, "fillInterval": "1s"});
    traffic_policy("wide", &target, &json!({"rateLimit": {"local": {"tokenBucket": bucket}}}))
}

fn extension(value: usize) -> Value {
    json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension", "metadata": {"name": "auth", "namespace": "team"},
        "spec": {"extAuth": {"grpcService": {"backendRef": {"name": "auth", "port": 80}, "requestTimeout": format!("{value}s")}}}
    })
}
