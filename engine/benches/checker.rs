//! Run time of the fallback checker, compared with the planner that makes the plan.
//!
//! `cargo bench -p holdfast-engine --bench checker [-- ROUTES…]` prints the median of each at 1,000
//! and 2,000 routes, of which 1, 10 and 100 are broken and backfilled. The checker's time must grow with the number of
//! broken routes, not with the number of all routes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use holdfast_api::settings::Settings;
use holdfast_test_support::plans::Plans;
use serde_json::{Value, json};

/// Times that each is measured.
const TIMES: usize = 51;

fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![1_000, 2_000] } else { sizes };
    println!("routes | broken | backfilled | planner us | checker us");
    for routes in sizes {
        let mut settings = Settings::standalone();
        settings.fallback.isolate = true;
        settings.fallback.use_last_valid = true;
        let mut plans = Plans::of(world(routes), settings);
        let mut broken = 0;
        for wanted in [1, 10, 100] {
            for index in broken..wanted {
                plans.apply(route(index, "/path/[0-9"));
            }
            broken = wanted;
            plans.translate();
            measure(&plans, routes, broken);
        }
    }
}

fn measure(plans: &Plans, routes: usize, broken: usize) {
    let fallback = plans.planned();
    assert_eq!(plans.objections(&fallback), []);
    let planner = median(|| drop(black_box(plans.planned())));
    let checker = median(|| drop(black_box(plans.objections(&fallback))));
    let us = |time: Duration| time.as_nanos() as f64 / 1e3;
    println!("{routes:6} | {broken:6} | {:10} | {:10.1} | {:10.1}", fallback.altered().0, us(planner), us(checker));
}

fn median(mut what: impl FnMut()) -> Duration {
    let once = |_| {
        let started = Instant::now();
        what();
        started.elapsed()
    };
    let mut times: Vec<Duration> = (0..TIMES).map(once).collect();
    times.sort_unstable();
    times[TIMES / 2]
}

fn world(routes: usize) -> Vec<Value> {
    let group = "gateway.networking.k8s.io/v1";
    let mut documents = vec![
        json!({"apiVersion": group, "kind": "GatewayClass", "metadata": {"name": "holdfast"},
            "spec": {"controllerName": "holdfast.dev/gateway-controller"}}),
        json!({"apiVersion": group, "kind": "Gateway", "metadata": {"name": "public", "namespace": "infra"},
            "spec": {"gatewayClassName": "holdfast", "listeners": [
                {"name": "http", "port": 8080, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}]}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "cart", "namespace": "team"},
            "spec": {"ports": [{"port": 80}]}}),
    ];
    documents.extend((0..routes).map(|index| route(index, "/path/[0-9]+")));
    documents
}

fn route(index: usize, pattern: &str) -> Value {
    let rule = |kind: &str, path: &str| json!({"matches": [{"path": {"type": kind, "value": path}}], "backendRefs": [{"name": "cart", "port": 80}]});
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": format!("route-{index}"), "namespace": "team"},
        "spec": {"parentRefs": [{"name": "public", "namespace": "infra"}],
            "hostnames": [format!("host-{}.example.com", index % 100)],
            "rules": [rule("RegularExpression", pattern), rule("PathPrefix", &format!("/{index}"))]}})
}
