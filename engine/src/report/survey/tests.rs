//! Reports of engines that are driven with objects; simulated Envoys (`PlayedEnvoy`) refuse certain words.

use std::collections::BTreeSet;

use holdfast_api::fault::Class;
use holdfast_api::settings::{Fallback, Settings};
use holdfast_fallback::view::{ClosedBy, FallbackReport, ServedState, Status};
use holdfast_graph::ObjectKey;
use holdfast_store::{LastValidStore, MemoryStore};
use serde_json::{Value, json};

use crate::engine::{Action, Engine, Event};
use crate::testing;
use crate::testing::played::{PlayedEnvoy, settle};

/// 2027-01-15T10:00:00Z
const TEN: u64 = 1_800_007_200_000;

pub(crate) const BASE: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: holdfast}
spec: {controllerName: holdfast.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: infra, uid: gateway-1, generation: 1}
spec:
  gatewayClassName: holdfast
  listeners:
  - {name: http, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop, uid: service-1}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: cart-0, namespace: shop, uid: slice-1, labels: {kubernetes.io/service-name: cart}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [{addresses: ['10.0.0.1']}]
";

/// A Service that is deleted later.
const OLD_SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: old, namespace: shop, uid: service-2}\n\
                           spec: {ports: [{port: 80}]}";

/// Returns the route `shop/cart` with a path in its second rule.
pub(crate) fn route(generation: i64, path: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: cart, namespace: shop, uid: route-1, generation: {generation}}}
spec:
  parentRefs: [{{name: public, namespace: infra}}]
  rules:
  - matches: [{{path: {{type: PathPrefix, value: /cart}}}}]
    backendRefs: [{{name: cart, port: 80}}]
  - matches: [{{path: {path}}}]
    backendRefs: [{{name: cart, port: 80}}]
"
    )
}

pub(crate) fn exact(path: &str) -> String {
    format!("{{type: Exact, value: {path}}}")
}

/// An engine with Envoys that have acknowledged the route at generation 4.
pub(crate) struct Scene {
    pub(crate) engine: Engine,
    envoys: Vec<PlayedEnvoy>,
    now_ms: u64,
    /// The stored changes.
    store: MemoryStore,
}

impl Scene {
    pub(crate) fn new(fallback: Fallback, envoys: Vec<PlayedEnvoy>) -> Self {
        let mut engine = Engine::new(Settings { fallback, ..Settings::standalone() });
        engine.handle(vec![Event::Clock(TEN)]);
        let mut scene = Self { engine, envoys: Vec::new(), now_ms: TEN, store: MemoryStore::default() };
        scene.handle(testing::events(BASE));
        envoys.into_iter().for_each(|envoy| scene.connect(envoy));
        scene.apply(&route(4, &exact("/fine")));
        scene
    }

    fn handle(&mut self, events: Vec<Event>) {
        self.now_ms += 60_000;
        let mut all = vec![Event::Clock(self.now_ms)];
        all.extend(events);
        let actions = self.engine.handle(all);
        let stored = settle(&mut self.engine, &mut self.envoys, actions);
        self.store.commit(stored).unwrap();
    }

    pub(crate) fn apply(&mut self, yaml: &str) {
        self.handle(testing::events(yaml));
    }

    /// Returns another run with the same objects, one hour later: it has the stored state of this run, and its Envoys
    /// have no configuration.
    fn restarted(&self, objects: &str) -> Self {
        self.restarted_with(testing::events(objects))
    }

    fn restarted_with(&self, events: Vec<Event>) -> Self {
        let settings = self.engine.settings().clone();
        let mut scene = Self {
            engine: Engine::new(settings),
            envoys: Vec::new(),
            now_ms: self.now_ms + 3_600_000,
            store: MemoryStore::default(),
        };
        let restored = holdfast_fallback::restore::restore(&self.store).unwrap().0;
        scene.handle(vec![Event::Restored(Box::new(restored))]);
        scene.handle(events);
        envoys().into_iter().for_each(|envoy| scene.connect(envoy));
        scene
    }

    pub(crate) fn connect(&mut self, envoy: PlayedEnvoy) {
        self.envoys.push(envoy.clone());
        self.handle(vec![Event::Connected(envoy.id.clone(), false)]);
        let offers = self.engine.offered(&envoy.id.fleet).cloned().unwrap();
        let publish = Action::Publish { gateway: envoy.id.fleet, offers };
        let stored = settle(&mut self.engine, &mut self.envoys, vec![publish]);
        self.store.commit(stored).unwrap();
    }

    pub(crate) fn delete(&mut self, key: ObjectKey) {
        self.handle(vec![Event::Deleted(key)]);
    }

    pub(crate) fn report(&self) -> Value {
        serde_json::to_value(self.engine.fallback()).unwrap()
    }
}

/// Returns a path, and a filter with a word that simulated Envoys refuse.
pub(crate) fn filtered(word: &str) -> String {
    let set = format!("{{set: [{{name: x-word, value: {word}}}]}}");
    format!(
        "{{type: Exact, value: /b}}}}]\n    filters: [{{type: RequestHeaderModifier, requestHeaderModifier: {set}}}] #"
    )
}

pub(crate) fn envoys() -> Vec<PlayedEnvoy> {
    let envoy = |node| PlayedEnvoy::new("infra/public", node).refusing("/refused", "missing ]: [");
    vec![envoy("one"), envoy("two")]
}

pub(crate) fn last_valid() -> Fallback {
    Fallback { isolate: true, use_last_valid: true, ..Fallback::default() }
}

#[test]
fn what_is_current_is_not_triggered() {
    let scene = Scene::new(last_valid(), envoys());
    let report = scene.report();
    assert_eq!(report["status"], "not-triggered");
    for array in ["brokenObjects", "backfilledObjects", "replacedObjects", "excludedObjects"] {
        assert_eq!(report[array], json!([]), "{array}");
    }
    assert_eq!(report["gateways"][0]["state"], "current");
    assert_eq!(report["gateways"][0]["envoys"], json!({"acknowledged": 2, "refused": 0, "pending": 0}));
}

#[test]
fn a_refused_route_is_backfilled_and_reported_with_its_cause() {
    let mut scene = Scene::new(last_valid(), envoys());
    let before = scene.engine.fallback().gateways[0].generation;
    scene.apply(&route(5, &exact("/refused")));
    let report = scene.report();
    assert_eq!(report["status"], "triggered");
    let broken = &report["brokenObjects"][0];
    assert_eq!(broken["kind"], "HTTPRoute");
    assert_eq!((&broken["id"], &broken["version"]), (&json!("route-1"), &json!("v1")));
    assert_eq!((&broken["generation"], &broken["detectedBy"]), (&json!(5), &json!("nack")));
    assert_eq!((&broken["field"], &broken["message"]), (&json!("spec.rules[1]"), &json!("missing ]: [")));
    assert_eq!(broken["gateways"], json!(["infra/public"]));
    assert!(broken["since"].as_str().unwrap().starts_with("2027-01-15T10:"), "{broken}");
    let backfilled = &report["backfilledObjects"][0];
    assert_eq!(backfilled["causingObjects"], json!(["gateway.networking.k8s.io/HTTPRoute:shop/cart"]));
    assert_eq!((&backfilled["desiredGeneration"], &backfilled["servedGeneration"]), (&json!(5), &json!(4)));
    let gateway = &report["gateways"][0];
    assert_eq!((&gateway["name"], &gateway["state"]), (&json!("infra/public"), &json!("fallback")));
    assert!(gateway["generation"].as_u64().unwrap() > before);
    assert_eq!(gateway["envoys"]["refused"], 0);

    scene.apply(&route(6, &exact("/fine")));
    assert_eq!(scene.engine.fallback().status, Status::NotTriggered);
}

#[test]
fn times_survive_a_restart_where_they_are_stored() {
    let mut scene = Scene::new(last_valid(), envoys());
    let refused = route(5, &exact("/refused"));
    scene.apply(&refused);
    let before = scene.report();
    let again = scene.restarted(&format!("{BASE}---\n{refused}")).report();
    assert_eq!(again["brokenObjects"], before["brokenObjects"]);
    assert_eq!(again["backfilledObjects"], before["backfilledObjects"]);

    // A fault that translation finds again is not stored: its time begins with the restart.
    let mut scene = Scene::new(last_valid(), envoys());
    let broken = route(5, "{type: RegularExpression, value: '/a['}");
    scene.apply(&broken);
    let before = scene.report();
    let again = scene.restarted(&format!("{BASE}---\n{broken}")).report();
    let (was, is) = (before["brokenObjects"][0]["since"].as_str(), again["brokenObjects"][0]["since"].as_str());
    assert!(was.unwrap().starts_with("2027-01-15T10:") && is.unwrap().starts_with("2027-01-15T11:"), "{was:?} {is:?}");
    assert_eq!(again["backfilledObjects"], before["backfilledObjects"]);
}

#[test]
fn envoys_that_come_before_their_gateway_is_known_count() {
    let mut engine = Engine::new(Settings { fallback: last_valid(), ..Settings::standalone() });
    let mut all = envoys();
    let connect = |envoy: &PlayedEnvoy| Event::Connected(envoy.id.clone(), false);
    engine.handle(vec![Event::Clock(TEN), connect(&all[0]), connect(&all[1]), connect(&all[1])]);
    engine.handle(vec![Event::Disconnected(all[0].id.clone()), Event::Disconnected(all[1].id.clone())]);
    let actions = engine.handle(testing::events(&format!("{BASE}---\n{}", route(4, &exact("/fine")))));
    all.remove(0);
    settle(&mut engine, &mut all, actions);
    let report = engine.fallback();
    assert_eq!(report.gateways[0].envoys.acknowledged, 1);
    assert!(report.gateways[0].settled);
}

#[test]
fn a_refused_rule_without_last_valid_is_replaced() {
    let mut scene = Scene::new(Fallback { isolate: true, ..Fallback::default() }, envoys());
    scene.apply(&route(5, &filtered("/refused")));
    let report = scene.report();
    let replaced = &report["replacedObjects"][0];
    assert_eq!((&replaced["scope"], &replaced["section"]), (&json!("rule"), &json!("rules[1]")));
    assert_eq!((&replaced["response"], &report["backfilledObjects"]), (&json!(404), &json!([])));
    assert_eq!(report["excludedObjects"], json!([]));

    // A unit that is refused even as the match of a direct response is left out.
    scene.apply(&route(6, &exact("/refused")));
    let report = scene.report();
    assert_eq!(report["replacedObjects"], json!([]));
    assert_eq!(report["excludedObjects"][0]["name"], "cart");
}

#[test]
fn translation_faults_are_reported_in_every_mode() {
    let mut scene = Scene::new(Fallback::default(), envoys());
    scene.apply(&route(5, "{type: RegularExpression, value: '/a['}"));
    let report = scene.report();
    assert_eq!(report["brokenObjects"][0]["detectedBy"], "translation");
    assert_eq!(report["brokenObjects"][0]["field"], "spec.rules[1].matches[0].path.value");
    assert_eq!(report["replacedObjects"][0]["response"], 404);
    assert_eq!(report["gateways"][0]["state"], "fallback");
}

/// An object that a backend is made of is at fault itself, at its own field.
#[test]
fn a_backend_and_a_policy_of_backends_are_broken_at_their_own_fields() {
    let mut scene = Scene::new(last_valid(), envoys());
    scene.apply(
        "apiVersion: gateway.kgateway.dev/v1alpha1
kind: Backend
metadata: {name: empty, namespace: shop, uid: backend-1, generation: 3}
spec: {type: Static, static: {hosts: []}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: other, namespace: shop, uid: route-2, generation: 1}
spec:
  parentRefs: [{name: public, namespace: infra}]
  hostnames: [other.test]
  rules: [{backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: empty}]}]
",
    );
    let report = scene.report();
    assert_eq!(report["status"], "triggered");
    assert_eq!(report["brokenObjects"].as_array().unwrap().len(), 1, "{report}");
    let broken = &report["brokenObjects"][0];
    assert_eq!((&broken["kind"], &broken["name"]), (&json!("Backend"), &json!("empty")));
    assert_eq!((&broken["detectedBy"], &broken["generation"]), (&json!("translation"), &json!(3)));
    assert!(broken["field"].as_str().unwrap().starts_with("spec.static"), "{broken}");
    assert_eq!(broken["gateways"], json!(["infra/public"]));
    let since = broken["since"].clone();
    scene.apply(
        "apiVersion: gateway.kgateway.dev/v1alpha1
kind: BackendConfigPolicy
metadata: {name: slow, namespace: shop, uid: policy-1, generation: 1}
spec: {targetRefs: [{group: '', kind: Service, name: cart}], connectTimeout: soon}
",
    );
    let report = scene.report();
    let field = |kind: &str| {
        let all = report["brokenObjects"].as_array().unwrap();
        all.iter().find(|broken| broken["kind"] == kind).map(|broken| broken["field"].clone())
    };
    assert_eq!(field("BackendConfigPolicy"), Some(json!("spec.connectTimeout")), "{report}");
    assert_eq!(report["brokenObjects"][0]["since"], since, "it was found earlier");
}

#[test]
fn the_class_of_a_replacement_is_that_of_the_policy_behind_it() {
    let mut scene = Scene::new(Fallback::default(), envoys());
    let policy = |settings: &str| {
        format!(
            "apiVersion: gateway.kgateway.dev/v1alpha1
kind: BackendConfigPolicy
metadata: {{name: slow, namespace: shop, uid: policy-1, generation: 1}}
spec: {{targetRefs: [{{group: '', kind: Service, name: cart}}], {settings}}}
"
        )
    };
    let cases = [
        ("connectTimeout: soon", Class::Invalid),
        ("connectTimeout: -5s", Class::Invalid),
        ("tls: {secretRef: {name: none}, sni: cart.example.com}", Class::Referential),
    ];
    for (settings, class) in cases {
        scene.apply(&policy(settings));
        let of_policy = scene.engine.replacements().into_iter().filter(|replaced| replaced.policy.is_some());
        let classes: BTreeSet<Class> = of_policy.map(|replaced| replaced.cause).collect();
        assert_eq!(classes, BTreeSet::from([class]), "{settings}");
    }
}

#[test]
fn without_the_gate_a_refusal_holds_the_gateway() {
    let mut scene = Scene::new(Fallback::default(), envoys());
    scene.apply(&route(5, &exact("/refused")));
    let report = scene.engine.fallback();
    assert_eq!(report.gateways[0].state, ServedState::Held);
    assert_eq!(report.status, Status::Triggered);
    assert_eq!(report.backfilled_objects[0].served_generation, 4);
}

#[test]
fn a_refused_listener_is_a_fault_of_its_gateway() {
    let one = PlayedEnvoy::new("infra/public", "one").refusing("18081", "cannot bind");
    let mut scene = Scene::new(last_valid(), vec![one.refusing("listener/8081", "cannot bind")]);
    scene.apply(&BASE.replace("- {name: http,", "- {name: more, port: 8081, protocol: HTTP}\n  - {name: http,"));
    let report = scene.report();
    let broken = &report["brokenObjects"][0];
    assert_eq!((&broken["kind"], &broken["field"]), (&json!("Gateway"), &json!("spec.listeners[more]")));
    assert_eq!(broken["message"], "cannot bind");
    assert_eq!(report["gateways"][0]["state"], "held");
    assert_eq!(report["gateways"][0]["envoys"]["refused"], 1);
    assert!(broken["since"].as_str().unwrap().starts_with("2027-01-15T10:"), "{broken}");
}

#[test]
fn an_unreadable_object_is_reported() {
    let mut scene = Scene::new(last_valid(), envoys());
    scene.apply(&route(5, &exact("/fine")).replace("spec:", "speck:"));
    let report = scene.engine.fallback();
    assert_eq!(report.broken_objects.len(), 1, "{report:?}");
    assert_eq!((report.broken_objects[0].generation, report.backfilled_objects[0].desired_generation), (None, None));
    assert_eq!(report.backfilled_objects[0].served_generation, 4);

    let lost = route(1, "x")
        .replace("name: cart, namespace: shop, uid: route-1", "name: lost, namespace: shop")
        .replace("spec:", "speck:");
    scene.apply(&lost);
    let report = scene.engine.fallback();
    assert_eq!(report.excluded_objects.len(), 1, "{report:?}");
    assert_eq!(&*report.excluded_objects[0].object.name, "lost");

    let statuses = scene.engine.statuses();
    let status = |name: &str| statuses.iter().find(|status| *status.object.name == *name).unwrap().status.clone();
    // For the object with a stand-in version, the recipients of its status are known.
    let parent = &status("cart")["parents"][0];
    assert_eq!(parent["parentRef"]["name"], "public");
    let conditions = parent["conditions"].as_array().unwrap();
    assert_eq!((&conditions[0]["type"], &conditions[0]["status"]), (&json!("Accepted"), &json!("False")));
    assert!(conditions[0]["message"].as_str().unwrap().starts_with("the object cannot be read"), "{conditions:?}");
    let is_backfilled =
        |one: &serde_json::Value| one["type"] == "holdfast.dev/Fallback" && one["reason"] == "Backfilled";
    assert!(conditions.iter().any(is_backfilled), "{conditions:?}");
    assert_eq!(status("lost")["parents"], json!([]));
    assert_eq!(status("lost")["conditions"][0]["status"], "False");

    scene.apply(&BASE.replace("listeners:", "listenerz:"));
    let statuses = scene.engine.statuses();
    let gateway = statuses.iter().find(|status| &*status.object.kind == "Gateway").unwrap();
    let accepted = &gateway.status["conditions"][0];
    assert_eq!((&accepted["type"], &accepted["status"]), (&json!("Accepted"), &json!("False")), "{gateway:?}");
}

#[test]
fn an_envoy_that_comes_before_the_objects_keeps_what_it_has() {
    let envoy = PlayedEnvoy::new("infra/public", "one").id;
    for probe in [None, Some(envoy.build.clone())] {
        let mut engine = Engine::new(Settings::standalone());
        engine.handle(vec![Event::Probe(probe), Event::Connected(envoy.clone(), true)]);
        for action in engine.handle(testing::events(BASE)) {
            let Action::Publish { offers, .. } = action else { continue };
            let empty = offers.of(&envoy.build, &envoy.node).is_empty();
            assert!(!empty || offers.waits(&envoy.build, &envoy.node), "it is to give up everything");
        }
    }
}

/// Returns the names of all fields, with one entry of each array.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
        Value::Array(entries) => entries.iter().take(1).map(shape).collect(),
        _ => Value::Null,
    }
}

#[test]
fn the_page_has_the_fields_that_it_is_meant_to_have() {
    let example: Value = serde_json::from_str(include_str!("example.json")).unwrap();
    let mut report: FallbackReport = serde_json::from_value(example.clone()).unwrap();
    assert_eq!(serde_json::to_value(&report).unwrap(), example, "it is read and written without a loss");
    report.gateways.clear();
    assert_eq!(serde_json::to_value(&report).unwrap()["gateways"], json!([]), "arrays are always there");

    let mut scene = Scene::new(last_valid(), envoys());
    scene.apply(&route(5, &exact("/refused")));
    scene.apply(
        &route(1, "{type: RegularExpression, value: '/a['}")
            .replace("name: cart, namespace: shop, uid", "name: new, namespace: shop, uid"),
    );
    let mut report = scene.engine.fallback();
    assert!(!report.replaced_objects.is_empty(), "{report:?}");
    let excluded = holdfast_fallback::view::ExcludedObject {
        object: report.replaced_objects[0].object.clone(),
        causing_objects: report.replaced_objects[0].causing_objects.clone(),
        scope: holdfast_fallback::view::Scope::Listener,
        section: "listeners[web]".into(),
        closed_by: ClosedBy::Step,
    };
    report.excluded_objects.push(excluded);
    assert_eq!(shape(&serde_json::to_value(&report).unwrap()), shape(&example));
}

#[test]
fn a_missing_backend_is_on_the_page_and_no_fallback_in_metrics() {
    let fine = route(5, &exact("/fine"));
    let routes = [
        fine.replace("{name: cart, port: 80}", "{name: nowhere, port: 80}"),
        fine.replace("{name: cart, port: 80}", "{name: cart, port: 80, weight: 0}"),
        fine.replace("[{name: cart, port: 80}]", "[]"),
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {name: root, namespace: shop}\n\
         spec: {virtualhost: {fqdn: proxy.test}, routes: [{services: [{name: nowhere, port: 80}]}]}"
            .to_owned(),
    ];
    for yaml in routes {
        let mut scene = Scene::new(Fallback::default(), envoys());
        scene.apply(&yaml);
        let report = scene.engine.fallback();
        let replaced: Vec<_> = report.replaced_objects.iter().map(|entry| entry.closed_by).collect();
        assert!(!replaced.is_empty() && replaced.iter().all(|by| *by == ClosedBy::MissingBackend), "{report:?}");
        assert!(!report.gateway("infra/public").unwrap().closes, "{report:?}");
        assert!(report.counts().keys().all(|(step, _)| *step != "replaced"), "{report:?}");
    }
}

#[test]
fn the_cause_of_a_missing_backend_is_the_absent_object_or_else_the_route() {
    let route = |reference: &str| route(5, &exact("/fine")).replacen("{name: cart, port: 80}", reference, 1);
    let proxy = "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {name: root, namespace: shop}\n\
                 spec: {virtualhost: {fqdn: proxy.test}, routes: [{services: [{name: nowhere, port: 80}]}]}";
    let own = "gateway.networking.k8s.io/HTTPRoute:shop/cart";
    let cases = [
        (route("{name: nowhere, port: 80}"), vec!["core/Service:shop/nowhere"]),
        (
            route("{name: nowhere, port: 80}, {name: gone, port: 80}, {name: cart, port: 80, weight: 0}"),
            vec!["core/Service:shop/gone", "core/Service:shop/nowhere"],
        ),
        (
            route("{group: gateway.kgateway.dev, kind: Backend, name: nowhere}"),
            vec!["gateway.kgateway.dev/Backend:shop/nowhere"],
        ),
        (proxy.to_owned(), vec!["core/Service:shop/nowhere"]),
        (route("{name: cart, port: 81}"), vec![own]),
        (route("{name: nowhere, namespace: other, port: 80}"), vec![own]),
        (route("{name: cart, port: 80, weight: 0}"), vec![own]),
    ];
    for (yaml, expected) in cases {
        let mut scene = Scene::new(Fallback::default(), envoys());
        scene.apply(&yaml);
        let page = scene.report();
        assert_eq!(page["replacedObjects"][0]["causingObjects"], json!(expected), "{yaml}: {page:#}");
    }
}

/// A rule is without a backend only if all its references are missing backends, in any order.
#[test]
fn a_rule_with_a_missing_backend_and_another_error_counts_as_closed() {
    let fine = route(5, &exact("/fine"));
    let (missing, outside) = ("{name: nowhere, port: 80}", "{name: outside, port: 80}");
    let ignored = "{name: cart, port: 80, weight: 0}";
    let cases = [
        ([missing, outside], ClosedBy::Translation),
        ([outside, missing], ClosedBy::Translation),
        ([missing, missing], ClosedBy::MissingBackend),
        ([missing, ignored], ClosedBy::MissingBackend),
        ([ignored, missing], ClosedBy::MissingBackend),
    ];
    for (references, by) in cases {
        let mut scene = Scene::new(Fallback::default(), envoys());
        scene.apply(
            "apiVersion: v1\nkind: Service\nmetadata: {name: outside, namespace: shop}\n\
             spec: {type: ExternalName, externalName: outside.example.com}",
        );
        scene.apply(&fine.replacen("{name: cart, port: 80}", &references.join(", "), 1));
        let report = scene.engine.fallback();
        let replaced: Vec<_> = report.replaced_objects.iter().map(|entry| entry.closed_by).collect();
        assert_eq!(replaced, [by], "{references:?}: {report:?}");
        let closes = report.gateway("infra/public").unwrap().closes;
        assert_eq!(closes, by == ClosedBy::Translation, "{references:?}: {report:?}");
    }
}

#[test]
fn desired_rules_in_a_last_valid_version_are_named() {
    let mut scene = Scene::new(last_valid(), envoys());
    scene.apply(OLD_SERVICE);
    scene.apply(&route(2, &exact("/fine")).replacen("name: cart, port", "name: old, port", 1));
    scene.apply(&route(3, "{type: RegularExpression, value: '/fine['}"));
    assert_eq!(scene.report()["backfilledObjects"][0].get("desiredSections"), None);
    scene.delete(holdfast_api::apis::scheme::service_key("shop", "old"));
    let page = scene.report();
    assert_eq!(page["backfilledObjects"][0]["desiredSections"], json!(["rules[0]"]), "{page:#}");
}

#[test]
fn a_rule_without_a_backend_in_a_last_valid_version_is_on_the_page() {
    let mut scene = Scene::new(last_valid(), envoys());
    scene.apply(OLD_SERVICE);
    scene.apply(&route(2, &exact("/fine")).replacen("name: cart, port", "name: old, port", 1));
    let broken = route(3, "{type: RegularExpression, value: '/fine['}");
    scene.apply(&broken.replace("value: /cart", "value: /other"));
    assert_eq!(scene.report()["replacedObjects"], json!([]));
    scene.delete(holdfast_api::apis::scheme::service_key("shop", "old"));
    let page = scene.report();
    assert_eq!(page["backfilledObjects"][0]["servedGeneration"], 2, "{page:#}");
    let replaced = &page["replacedObjects"][0];
    assert_eq!((&replaced["section"], &replaced["response"]), (&json!("rules[0]"), &json!(500)), "{page:#}");
    assert_eq!(page["replacedObjects"].as_array().unwrap().len(), 1, "{page:#}");
}

#[test]
fn objects_of_a_file_that_does_not_parse_stay_as_stored() {
    let scene = Scene::new(last_valid(), envoys());
    let in_the_file = |yaml: &str| -> Vec<Event> {
        let uncertain = |event| match event {
            Event::Applied(object, faults) => Event::Uncertain(object, faults, "a.yaml cannot be read".to_owned()),
            other => other,
        };
        testing::events(yaml).into_iter().map(uncertain).collect()
    };
    let mut events = testing::events(BASE);
    let grant = "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
                 metadata: {name: grant, namespace: shop}\nspec: {from: [], to: []}\n";
    events.extend(in_the_file(&format!("{}---\n{grant}", route(5, &exact("/edited")))));
    let again = scene.restarted_with(events);
    let key = |kind: &str, name: &str| ObjectKey::new("gateway.networking.k8s.io", kind, "shop", name);
    let (edited, new) = (key("HTTPRoute", "cart"), key("ReferenceGrant", "grant"));
    let generation = |key: &ObjectKey| again.engine.objects().get(key).map(|object| object.metadata.generation);
    assert_eq!((generation(&edited), generation(&new)), (Some(4), Some(0)), "only the one without a stored version");
    let faults: Vec<String> = again.engine.faults().iter().map(|fault| fault.message.to_string()).collect();
    for part in ["stays in use", "used as the file has it now"] {
        assert!(faults.iter().any(|message| message.contains(part)), "{faults:?}");
    }
}
