//! Translation as a whole: incremental and from scratch must agree, in any order of events.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use holdfast_xds::{ResourceType, Snapshot};

use crate::engine::{Action, Engine, Event};
use crate::settings::Settings;
use crate::testing;

const BASE: &str = r#"
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: holdfast}
spec: {controllerName: holdfast.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: infra}
spec:
  gatewayClassName: holdfast
  listeners:
  - {name: http, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
  - {name: wild, port: 8080, protocol: HTTP, hostname: "*.example.com", allowedRoutes: {namespaces: {from: All}}}
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {ports: [{port: 80, name: http}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: cart-1, namespace: shop, labels: {kubernetes.io/service-name: cart}}
addressType: IPv4
ports: [{name: http, port: 3000}]
endpoints: [{addresses: [127.0.0.1]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: shop}
spec:
  parentRefs: [{name: public, namespace: infra}]
  hostnames: [cart.example.com]
  rules:
  - matches: [{path: {type: PathPrefix, value: /cart}}]
    backendRefs: [{name: cart, port: 80}]
  - matches: [{path: {type: RegularExpression, value: "/bad/[a"}}]
    backendRefs: [{name: cart, port: 80}]
  - matches: [{path: {type: Exact, value: /gone}}]
    backendRefs: [{name: nobody, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: calls, namespace: shop}
spec:
  parentRefs: [{name: public, namespace: infra, sectionName: http}]
  hostnames: [grpc.example.org]
  rules:
  - matches: [{method: {service: a.B, method: C}}]
    backendRefs: [{name: cart, port: 80}]
"#;

fn fleet(engine: &Engine) -> Snapshot {
    engine.fleet("infra/public").expect("the Gateway is served").clone()
}

/// The bytes and names of a fleet, for comparison.
fn content(snapshot: &Snapshot) -> Vec<(ResourceType, String, String, Vec<String>)> {
    ResourceType::ALL
        .into_iter()
        .flat_map(|kind| snapshot.of(kind).values().map(move |r| (kind, r)))
        .map(|(kind, r)| {
            (kind, r.name.to_string(), r.version.to_string(), r.origins.iter().map(ToString::to_string).collect())
        })
        .collect()
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
    let whole = fleet(&testing::engine(BASE, Settings::standalone()));
    let events = testing::events(BASE);
    let mut order: Vec<usize> = (0..events.len()).collect();
    for shuffle in 0..60_usize {
        let at = (shuffle * 7919 + 3) % order.len();
        order.swap(shuffle % events.len(), at);
        let mut engine = Engine::new(Settings::standalone());
        for index in &order {
            engine.handle(vec![events[*index].clone()]);
        }
        assert_eq!(content(&fleet(&engine)), content(&whole), "order {order:?}");
    }
}

#[test]
fn deleting_and_applying_again_ends_where_it_began() {
    let events = testing::events(BASE);
    let mut engine = Engine::new(Settings::standalone());
    engine.handle(events.clone());
    let whole = content(&fleet(&engine));
    for event in &events {
        let Event::Applied(object, _) = event else { panic!("all objects decode") };
        engine.handle(vec![Event::Deleted(object.key.clone())]);
        engine.handle(vec![event.clone()]);
        assert_eq!(content(&fleet(&engine)), whole, "after {}", object.key);
    }
}

#[test]
fn a_change_without_effect_publishes_nothing() {
    let mut engine = testing::engine(BASE, Settings::standalone());
    let mut events = testing::events(BASE);
    for event in &mut events {
        let Event::Applied(object, _) = event else { panic!("all objects decode") };
        object.metadata.annotations.insert("note".into(), "changed".into());
        object.metadata.generation += 1;
    }
    assert!(engine.handle(events).is_empty());
}

#[test]
fn a_change_of_endpoints_changes_one_resource() {
    let mut engine = testing::engine(BASE, Settings::standalone());
    let before = content(&fleet(&engine));
    let moved = BASE.replace("127.0.0.1]", "127.0.0.2]");
    let actions = engine.handle(testing::events(&moved));
    assert!(matches!(actions.as_slice(), [Action::Publish { .. }]));
    let after = content(&fleet(&engine));
    let changed: Vec<_> = after.iter().filter(|row| !before.contains(row)).map(|row| row.0).collect();
    assert_eq!(changed, [ResourceType::Endpoints]);
}
