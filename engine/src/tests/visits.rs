//! What one edit, one acknowledgement, one clock event and one status pass visit must not grow with the number of routes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::settings::Settings;
use holdfast_graph::Visits;

use crate::engine::{Action, Engine, Event};
use crate::health::facts::Outside;
use crate::testing;
use crate::testing::played::{PlayedEnvoy, settle};

const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: holdfast}
spec: {controllerName: holdfast.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: infra}
spec:
  gatewayClassName: holdfast
  listeners: [{name: http, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
";

/// Number of routes that forward to the same Service.
const ROUTES_OF_SERVICE: usize = 10;

/// Returns a Service with an endpoint.
fn service(index: usize) -> String {
    format!(
        "apiVersion: v1
kind: Service
metadata: {{name: s{index}, namespace: shop}}
spec: {{ports: [{{name: http, port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: s{index}-1, namespace: shop, labels: {{kubernetes.io/service-name: s{index}}}}}
addressType: IPv4
ports: [{{name: http, port: 8080, protocol: TCP}}]
endpoints: [{{addresses: [10.0.0.1], conditions: {{ready: true}}}}]
"
    )
}

/// Returns a route with its own host.
fn route(index: usize, path: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: r{index}, namespace: shop}}
spec:
  parentRefs: [{{name: public, namespace: infra}}]
  hostnames: [h{index}.example.com]
  rules: [{{matches: [{{path: {{value: {path}}}}}], backendRefs: [{{name: s{service}, port: 80}}]}}]
",
        service = index / ROUTES_OF_SERVICE
    )
}

/// The visits of each event at a Gateway with this number of routes.
fn visits(routes: usize) -> Vec<(&'static str, Visits)> {
    let mut events = testing::events(GATEWAY);
    events.extend((0..routes.div_ceil(ROUTES_OF_SERVICE)).flat_map(|index| testing::events(&service(index))));
    events.extend((0..routes).flat_map(|index| testing::events(&route(index, "/"))));
    let mut engine = Engine::new(Settings::standalone());
    let mut envoys = [PlayedEnvoy::new("infra/public", "envoy-1")];
    let connected = Event::Connected(envoys[0].id.clone(), false);
    events.push(connected);
    let actions = engine.handle(events);
    settle(&mut engine, &mut envoys, actions);
    let _ = (engine.reports(), engine.collect_statuses());

    let edit = testing::events(&route(1, "/edited"));
    let (actions, of_edit) = Visits::of(|| engine.handle(edit));
    let Some(Action::Publish { offers, .. }) = actions.into_iter().next() else { unreachable!("an edit is published") };
    let answers = envoys[0].answers(&offers);
    let (actions, of_answer) = Visits::of(|| engine.handle(answers));
    assert!(engine.has_records(), "the acknowledged version is to be stored");
    let (_, of_records) = Visits::of(|| engine.take_records());
    assert!(!engine.has_records());
    settle(&mut engine, &mut envoys, actions);
    let (_, of_clock) = Visits::of(|| engine.handle(vec![Event::Clock(1_700_000_001_000)]));
    let (_, of_next_clock) = Visits::of(|| engine.handle(vec![Event::Clock(1_700_000_002_000)]));
    let (reports, of_reports) = Visits::of(|| engine.reports());
    let (facts, of_health) = Visits::of(|| engine.facts(&reports, Outside::default()));
    assert_eq!(facts.found.len() + facts.effects.len(), 0, "{facts:?}");
    let (_, of_statuses) = Visits::of(|| engine.collect_statuses());
    vec![
        ("edit", of_edit),
        ("acknowledgement", of_answer),
        ("records", of_records),
        ("first clock event", of_clock),
        ("clock event", of_next_clock),
        ("reports", of_reports),
        ("health", of_health),
        ("statuses", of_statuses),
    ]
}

/// What grows with the number of routes, with the reason.
const GROWING: [(&str, &str, &str); 3] = [
    ("edit", "bytes", "the route configuration of a listener is one resource, which Envoy receives whole"),
    ("records", "objects", "one object of each block of hosts is compared with the first ones, which are stored"),
    ("records", "resources", "the store gets the whole acknowledged configuration, and writes what changed"),
];

#[test]
fn what_an_event_visits_does_not_grow_with_the_number_of_routes() {
    let (few, many) = (visits(500), visits(5_000));
    let mut growing = BTreeMap::new();
    for ((event, few), (_, many)) in few.iter().zip(&many) {
        for ((what, few), (_, many)) in few.named().into_iter().zip(many.named()) {
            if many > few.max(10) * 13 / 10 {
                growing.insert((*event, what), format!("{few} at 500 routes, {many} at 5,000"));
            }
        }
    }
    let known: BTreeSet<_> = GROWING.iter().map(|(event, what, _)| (*event, *what)).collect();
    assert_eq!(growing.keys().copied().collect::<BTreeSet<_>>(), known, "{growing:#?}");
}
