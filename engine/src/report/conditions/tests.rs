//! Conditions of engines that are driven with events.

use std::sync::Arc;

use holdfast_api::settings::Fallback;
use holdfast_fallback::view::FallbackReport;

use crate::engine::Event;
use crate::report::survey::tests::{BASE, Scene, envoys, exact, filtered, last_valid, route};

/// Returns the conditions of an object at its first parent, or of a Gateway, as `type=status reason: message`.
fn conditions(scene: &Scene, name: &str) -> Vec<String> {
    let statuses = scene.engine.statuses();
    let status = statuses.iter().find(|status| *status.object.name == *name).unwrap();
    let parent = status.status.pointer("/parents/0").unwrap_or(&status.status);
    let text = |condition: &serde_json::Value, field: &str| condition[field].as_str().unwrap().to_owned();
    let conditions = parent["conditions"].as_array().unwrap().iter();
    let line = |it: &serde_json::Value| {
        format!("{}={} {}: {}", text(it, "type"), text(it, "status"), text(it, "reason"), text(it, "message"))
    };
    conditions.map(line).collect()
}

#[track_caller]
fn has(conditions: &[String], begins: &str, holds: &[&str]) {
    let found = conditions.iter().find(|condition| condition.starts_with(begins));
    let found = found.unwrap_or_else(|| panic!("no {begins} in {conditions:#?}"));
    assert!(holds.iter().all(|text| found.contains(text)), "{found}");
}

#[track_caller]
fn lacks(conditions: &[String], kind: &str) {
    assert!(!conditions.iter().any(|condition| condition.starts_with(kind)), "{conditions:#?}");
}

#[test]
fn what_is_current_has_no_such_condition() {
    let scene = Scene::new(last_valid(), envoys());
    let actual = conditions(&scene, "cart");
    lacks(&actual, "holdfast.dev/Fallback");
    lacks(&actual, "PartiallyInvalid");
    has(&actual, "Accepted=True", &[]);
    has(&conditions(&scene, "public"), "Programmed=True", &[]);
}

#[test]
fn a_backfilled_route_names_cause_generation_and_time() {
    let mut scene = Scene::new(last_valid(), envoys());
    scene.apply(&route(5, &exact("/refused")));
    let actual = conditions(&scene, "cart");
    has(
        &actual,
        "holdfast.dev/Fallback=True Backfilled: serving generation 4 (last valid, since 2027-01-15T10:",
        &["Z); generation 5 was refused: spec.rules[1]: missing ]: ["],
    );
    has(&actual, "PartiallyInvalid=True UnsupportedValue: Fall Back (rules[1]): spec.rules[1]: missing ]: [", &[]);
    has(&actual, "Accepted=True", &[]);
    scene.apply(&route(6, &exact("/fine")));
    lacks(&conditions(&scene, "cart"), "holdfast.dev/Fallback");
}

/// The verdict has the position of the generation that was refused.
#[test]
fn a_refused_rule_that_an_edit_moves_is_named_by_its_position_in_the_new_generation() {
    let mut scene = Scene::new(last_valid(), envoys());
    let named = |generation, path: &str| {
        route(generation, path)
            .replace("  - matches: [{path: {type: Exact", "  - name: own\n    matches: [{path: {type: Exact")
    };
    scene.apply(&named(5, &exact("/refused")));
    has(
        &conditions(&scene, "cart"),
        "PartiallyInvalid=True UnsupportedValue: Fall Back (rules[1]): spec.rules[1]: ",
        &[],
    );
    let rule = "  - matches: [{path: {value: /new}}]\n    backendRefs: [{name: cart, port: 80}]\n";
    scene.apply(&named(6, &exact("/refused")).replace("  rules:\n", &format!("  rules:\n{rule}")));
    let actual = conditions(&scene, "cart");
    has(&actual, "PartiallyInvalid=True UnsupportedValue: Fall Back (rules[2]): spec.rules[2]: missing ]: [", &[]);
    has(&actual, "holdfast.dev/Fallback=True", &["generation 6 was refused: spec.rules[2]: missing ]: ["]);
    let broken = &scene.report()["brokenObjects"][0];
    assert_eq!((&broken["generation"], &broken["field"]), (&6.into(), &"spec.rules[2]".into()), "{broken:#}");
}

#[test]
fn a_translation_fault_with_a_last_valid_version_is_reported_as_backfilled() {
    let mut scene = Scene::new(last_valid(), envoys());
    scene.apply(&route(5, "{type: RegularExpression, value: '/a['}"));
    let actual = conditions(&scene, "cart");
    has(
        &actual,
        "holdfast.dev/Fallback=True Backfilled: serving generation 4",
        &["spec.rules[1].matches[0].path.value"],
    );
    has(&actual, "PartiallyInvalid=True UnsupportedValue: Fall Back (rules[1])", &[]);
}

#[test]
fn a_route_that_is_wholly_refused_is_not_accepted_though_it_is_served() {
    let mut scene = Scene::new(last_valid(), envoys());
    scene.apply(
        &route(5, &exact("/refused")).replace("{type: PathPrefix, value: /cart}", "{type: Exact, value: /refused/too}"),
    );
    let actual = conditions(&scene, "cart");
    lacks(&actual, "PartiallyInvalid");
    has(&actual, "Accepted=False UnsupportedValue", &["missing ]"]);
    has(&actual, "holdfast.dev/Fallback=True Backfilled", &[]);
}

#[test]
fn a_replaced_rule_that_envoy_refused_is_reported_as_dropped() {
    let mut scene = Scene::new(Fallback { isolate: true, ..Fallback::default() }, envoys());
    scene.apply(&route(5, &filtered("/refused")));
    let actual = conditions(&scene, "cart");
    has(&actual, "PartiallyInvalid=True UnsupportedValue: Dropped Rule (rules[1]): missing ]: [", &[]);
    has(
        &actual,
        "holdfast.dev/Fallback=True Replaced: requests are answered with status 404 (rules[1]): missing ]: [; since 2027-01-15T10:",
        &[],
    );
    assert_eq!(scene.engine.replacements().len(), 1, "it counts as replaced");
}

#[test]
fn programmed_waits_for_all_that_answer() {
    let mut scene = Scene::new(last_valid(), Vec::new());
    has(&conditions(&scene, "public"), "Programmed=Unknown Pending", &[]);
    scene.connect(envoys().remove(0));
    has(&conditions(&scene, "public"), "Programmed=True", &[]);
    let refusing = envoys().remove(0).refusing("18081", "cannot bind").refusing("listener/8081", "cannot bind");
    let mut scene = Scene::new(last_valid(), vec![refusing]);
    scene.apply(&BASE.replace("- {name: http,", "- {name: more, port: 8081, protocol: HTTP}\n  - {name: http,"));
    let statuses = scene.engine.statuses();
    let gateway = statuses.iter().find(|status| &*status.object.name == "public").unwrap();
    assert!(gateway.status["listeners"].to_string().contains("cannot bind"), "{}", gateway.status);
}

#[test]
fn an_unknown_gateway_has_no_condition() {
    let key = holdfast_graph::ObjectKey::new("g", "K", "n", "o");
    assert!(super::condition(&FallbackReport::default(), &key, "n/g").is_none());
}

#[test]
fn all_causes_are_reported_below_a_closed_gateway() {
    let mut scene = Scene::new(last_valid(), envoys());
    scene.apply(
        "apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: guard, namespace: infra, uid: policy-1, generation: 1}
spec:
  targetRefs:
  - {group: gateway.networking.k8s.io, kind: Gateway, name: public}
  - {group: gateway.networking.k8s.io, kind: Gateway, name: pubic}
  timeouts: {request: soon}
  basicAuth: {secretRef: {name: users}}
",
    );
    let both = ["soon", "Secret infra/users does not exist"];
    has(&conditions(&scene, "public"), "Accepted=False GatewayReplaced: TrafficPolicy infra/guard: ", &both);
    has(
        &conditions(&scene, "public"),
        "holdfast.dev/Fallback=True Replaced: listeners[http] answers 500; because",
        &both,
    );
    has(
        &conditions(&scene, "cart"),
        "holdfast.dev/Fallback=True Replaced: listener http of Gateway infra/public",
        &both,
    );
    let statuses = scene.engine.statuses();
    let status = &statuses.iter().find(|status| *status.object.name == *"guard").unwrap().status;
    let ancestors = status["ancestors"].as_array().unwrap();
    assert_eq!(ancestors.len(), 2, "{status}");
    let text = |ancestor: usize, condition: usize| {
        let condition = &ancestors[ancestor]["conditions"][condition];
        assert_eq!(condition["observedGeneration"], 1);
        let text = |field: &str| condition[field].as_str().unwrap().to_owned();
        format!("{}={} {}: {}", text("type"), text("status"), text("reason"), text("message"))
    };
    let actual = text(0, 0);
    assert!(
        actual.starts_with("Accepted=False Invalid: ") && both.iter().all(|fault| actual.contains(fault)),
        "{actual}"
    );
    assert!(text(0, 1).starts_with("Attached=False Pending"));
    assert!(text(1, 1).starts_with("Attached=False TargetNotFound: Gateway infra/pubic does not exist"));
}

/// Returns the `Accepted` condition of a policy at its first ancestor.
fn accepted(scene: &Scene, policy: &str) -> String {
    let statuses = scene.engine.statuses();
    let status = &statuses.iter().find(|status| *status.object.name == *policy).unwrap().status;
    let condition = &status["ancestors"][0]["conditions"][0];
    let text = |field: &str| condition[field].as_str().unwrap().to_owned();
    format!("{}={} {}: {}", text("type"), text("status"), text("reason"), text("message"))
}

#[test]
fn a_refused_listener_policy_is_reported_on_it_and_on_all_that_it_closes() {
    let envoys = vec![envoys().remove(0).refusing("nobody-takes-it", "bad name")];
    let mut scene = Scene::new(Fallback { isolate: true, ..Fallback::default() }, envoys);
    scene.apply(
        "apiVersion: gateway.kgateway.dev/v1alpha1
kind: ListenerPolicy
metadata: {name: edge, namespace: infra, uid: policy-1, generation: 1}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}]
  default: {httpSettings: {serverName: nobody-takes-it}}
",
    );
    let why = ["bad name"];
    has(&conditions(&scene, "public"), "Accepted=False GatewayReplaced: ListenerPolicy infra/edge: refused by", &why);
    has(
        &conditions(&scene, "public"),
        "holdfast.dev/Fallback=True Replaced: listeners[http] answers 500; because",
        &why,
    );
    has(
        &conditions(&scene, "cart"),
        "holdfast.dev/Fallback=True Replaced: listener http of Gateway infra/public",
        &why,
    );
    let actual = accepted(&scene, "edge");
    let field = "spec.default.httpSettings.serverName: refused by Envoy: bad name";
    assert!(actual.starts_with("Accepted=False Invalid: ") && actual.contains(field), "{actual}");
}

#[test]
fn a_refused_extension_is_reported_on_the_policy_that_uses_it_too() {
    let envoys = vec![envoys().remove(0).refusing("nobody-takes-it", "bad name")];
    let mut scene = Scene::new(Fallback { isolate: true, ..Fallback::default() }, envoys);
    scene.apply(
        "apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: guard, namespace: infra, uid: policy-1, generation: 1}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}]
  extAuth: {extensionRef: {name: auth}}
---
apiVersion: v1
kind: Service
metadata: {name: auth, namespace: infra, uid: service-1}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {name: auth, namespace: infra, uid: extension-1, generation: 1}
spec: {extAuth: {grpcService: {backendRef: {name: auth, port: 80}}, statPrefix: nobody-takes-it}}
",
    );
    let why = ["GatewayExtension infra/auth: bad name"];
    has(&conditions(&scene, "public"), "Accepted=False GatewayReplaced: TrafficPolicy infra/guard: refused by", &why);
    has(
        &conditions(&scene, "cart"),
        "holdfast.dev/Fallback=True Replaced: listener http of Gateway infra/public",
        &why,
    );
    let actual = accepted(&scene, "guard");
    assert!(actual.starts_with("Accepted=False Invalid: ") && actual.contains(why[0]), "{actual}");
}

#[test]
fn a_route_of_which_every_listener_lost_a_conflict_is_not_accepted() {
    let mut scene = Scene::new(last_valid(), envoys());
    let twice = "- {name: a, port: 8080, protocol: HTTP, hostname: x.test}\n  \
                 - {name: http, port: 8080, protocol: HTTP, hostname: x.test, allowedRoutes: {namespaces: {from: All}}}\n  #";
    scene.apply(&BASE.replace("- {name: http,", twice));
    let named = "{name: public, namespace: infra, sectionName: http}";
    scene.apply(&route(5, &exact("/fine")).replace("{name: public, namespace: infra}", named));
    let why = ["2 listeners claim host \"x.test\" on port 8080"];
    has(
        &conditions(&scene, "cart"),
        "Accepted=False NoReadyListeners: listener http of Gateway infra/public is not served: ",
        &why,
    );
}

#[test]
fn a_route_without_a_served_listener_is_left_out_with_the_reason_and_what_clients_get() {
    let mut scene = Scene::new(last_valid(), envoys());
    let all = "allowedRoutes: {namespaces: {from: All}}";
    let secured = format!(
        "- {{name: tls, port: 8443, protocol: HTTPS, {all}, tls: {{certificateRefs: [{{name: none}}]}}}}\n  - {{name: http,"
    );
    scene.apply(&BASE.replace("- {name: http,", &secured));
    let at = |name: &str| {
        let named = format!("{{name: public, namespace: infra, sectionName: {name}}}");
        route(5, &exact("/fine")).replace("{name: public, namespace: infra}", &named)
    };
    scene.apply(&at("tls"));
    has(
        &conditions(&scene, "cart"),
        "holdfast.dev/Fallback=True Excluded: listener tls of Gateway infra/public is not served: ",
        &["Secret infra/none does not exist", "; connections are refused"],
    );
    scene.apply(&at("http").replace("generation: 5", "generation: 6"));
    lacks(&conditions(&scene, "cart"), "holdfast.dev/Fallback");
    let taken = |ports: &[(&str, &str)]| {
        Event::PortsTaken(ports.iter().map(|(at, by)| (at.parse().unwrap(), Arc::from(*by))).collect())
    };
    scene.engine.handle(vec![taken(&[("0.0.0.0:8080", "nginx")])]);
    has(
        &conditions(&scene, "cart"),
        "holdfast.dev/Fallback=True Excluded: listener http of Gateway infra/public is not served: port 8080 of ",
        &["in use by nginx", "; connections reach the process or Gateway that uses its port"],
    );
    scene.engine.handle(vec![taken(&[])]);
    lacks(&conditions(&scene, "cart"), "holdfast.dev/Fallback");
}
