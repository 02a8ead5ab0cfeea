//! Speed of translation of HTTPProxies, as a ratio to a floor that is measured in the same run.
//!
//! `cargo bench -p holdfast-engine --bench proxies [-- TREES…]` prints a table for 20 and 200 trees of ten HTTPProxies
//! each, a root with three children that have two each, and three routes a proxy:
//!
//! * full: JSON in memory to all xDS bytes and versions, beside the floor: decoding the same JSON with serde and encoding
//!   the same routes with prost;
//! * leaf: a change of one route of a leaf; root: a change of one route of a root; 50th and 99th percentile;
//! * pushed: bytes of the resources that one change makes new; and nothing for a change without effect.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod measured;

use std::hint::black_box;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use holdfast_api::apis::contour::route::ProxyRoute;
use holdfast_api::settings::Settings;
use holdfast_engine::engine::Engine;
use measured::{event, message, new_bytes, percentile, published, silence};
use prost::Message;
use serde_json::{Value, json};

/// Changes of each kind that are timed.
const CHANGES: usize = 500;
/// HTTPProxies of a tree.
const PROXIES: usize = 10;
/// Routes of an HTTPProxy.
const ROUTES: usize = 3;

fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![20, 200] } else { sizes };
    println!(
        "proxies | trees | full ms | of it decoding | floor ms | ratio | leaf p50 us | p99 us | root p50 us | p99 us | pushed bytes | no effect"
    );
    sizes.into_iter().for_each(measure);
}

fn measure(trees: usize) {
    let proxies: Vec<Vec<u8>> = (0..trees).flat_map(|tree| (0..PROXIES).map(move |at| proxy(tree, at, "a"))).collect();
    let floor = floor(&proxies);
    let started = Instant::now();
    let mut engine = Engine::new(Settings::standalone());
    let events = services().iter().chain(&proxies).map(|json| event(json)).collect();
    let decoded = started.elapsed();
    let actions = engine.handle(events);
    let full = started.elapsed();
    let mut last = published(actions).expect("nothing was published");
    let mut pushed = 0;
    let mut timed = |at: &dyn Fn(usize) -> usize| {
        let mut times: Vec<Duration> = Vec::with_capacity(CHANGES);
        for change in 0..CHANGES {
            let event = event(&proxy((change * 7919) % trees, at(change), &format!("v{change}")));
            let started = Instant::now();
            let actions = engine.handle(vec![event]);
            times.push(started.elapsed());
            if let Some(new) = published(actions) {
                pushed = new_bytes(&last, &new).0;
                last = new;
            }
        }
        [50, 99].map(|share| percentile(&mut times, share))
    };
    let leaf = timed(&|change| 4 + change % (PROXIES - 4));
    let root = timed(&|_| 0);
    let same = proxy(0, 0, "same");
    engine.handle(vec![event(&same)]);
    let silent = engine.handle(vec![event(&same)]).is_empty();
    println!(
        "{:7} | {trees:5} | {:7.1} | {:14.1} | {:8.1} | {:5.2} | {:11.1} | {:6.1} | {:11.1} | {:6.1} | {pushed:12} | {}",
        trees * PROXIES,
        full.as_secs_f64() * 1e3,
        decoded.as_secs_f64() * 1e3,
        floor.as_secs_f64() * 1e3,
        full.as_secs_f64() / floor.as_secs_f64(),
        leaf[0],
        leaf[1],
        root[0],
        root[1],
        silence(silent),
    );
}

/// What no translation can do without: decode the JSON, encode the messages.
fn floor(documents: &[Vec<u8>]) -> Duration {
    let message =
        message("httpproxy/team/proxy-123-4/routes[1]", PathSpecifier::Prefix("/team-1/part-4/route-1".into()));
    let started = Instant::now();
    for document in documents {
        let mut document: Value = serde_json::from_slice(document).unwrap();
        black_box(serde_json::from_value::<Vec<ProxyRoute>>(document["spec"]["routes"].take()).unwrap());
        for _ in 0..ROUTES {
            black_box(black_box(&message).encode_to_vec());
        }
    }
    started.elapsed()
}

fn services() -> Vec<Vec<u8>> {
    let service = |index: usize| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("backend-{index}"), "namespace": "team"},
            "spec": {"ports": [{"port": 80}]}
        })
    };
    (0..100).map(|index| serde_json::to_vec(&service(index)).unwrap()).collect()
}

/// Number `at` of a tree: 0 is the root, 1 to 3 its children, the rest theirs.
fn proxy(tree: usize, at: usize, value: &str) -> Vec<u8> {
    let include = |child: usize| json!({"name": format!("proxy-{tree}-{child}"), "conditions": [{"prefix": format!("/part-{child}")}]});
    let includes: Vec<Value> = match at {
        0 => (1..4).map(include).collect(),
        1..4 => (2 + 2 * at..4 + 2 * at).map(include).collect(),
        _ => Vec::new(),
    };
    let route = |number: usize| {
        json!({
            "conditions": [{"prefix": format!("/route-{number}")}, {"header": {"name": "x-version", "exact": value}}],
            "services": [{"name": format!("backend-{}", (tree + at) % 100), "port": 80}],
            "requestHeadersPolicy": {"set": [{"name": "x-team", "value": format!("team-{tree}")}], "remove": ["x-internal"]},
            "timeoutPolicy": {"response": "10s"},
        })
    };
    let mut spec = json!({"includes": includes, "routes": (0..ROUTES).map(route).collect::<Vec<_>>()});
    if at == 0 {
        spec["virtualhost"] = json!({"fqdn": format!("host-{tree}.example.com")});
    }
    let proxy = json!({
        "apiVersion": "projectcontour.io/v1", "kind": "HTTPProxy",
        "metadata": {
            "name": format!("proxy-{tree}-{at}"), "namespace": "team", "uid": format!("00000000-0000-0000-{tree:04}-{at:012}"),
            "resourceVersion": "123456", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec,
    });
    serde_json::to_vec(&proxy).unwrap()
}
