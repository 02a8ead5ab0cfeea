//! Events for policies, and for the objects that these close.

use holdfast_api::settings::Fallback;

use super::{EventScene, check, exact, last_valid, route};
use crate::report::survey::tests::BASE;

fn policy(namespace: &str, kind: &str, name: &str, settings: &str, generation: i64) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {{name: guard, namespace: {namespace}, uid: policy-1, generation: {generation}}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: {kind}, name: {name}}}]
  {settings}
"
    )
}

fn header(value: &str) -> String {
    format!("headerModifiers: {{request: {{set: [{{name: x-guard, value: {value}}}]}}}}")
}

const USERS: &str = "apiVersion: v1
kind: Secret
metadata: {name: users, namespace: infra, uid: secret-1}
stringData: {.htpasswd: \"alice:{SHA}d95o2uzYI7q7tY7bHI4U1xBug7s=\"}
";

#[test]
fn a_gateway_that_a_policy_closes_for_want_of_a_secret() {
    let mut driver = EventScene::new(last_valid());
    let why = "spec.basicAuth.secretRef: Secret infra/users does not exist";
    let because =
        format!("because of gateway.kgateway.dev/TrafficPolicy:infra/guard: {why}; no last valid version exists");
    let lines = driver.apply(&policy("infra", "Gateway", "public", "basicAuth: {secretRef: {name: users}}", 1));
    check(
        &lines,
        &[
            &format!("Warning ConfigurationTranslationFailed TrafficPolicy/guard: {why}"),
            &format!("Warning Replaced Gateway/public: listeners[http] answers 500; {because}"),
            &format!("Warning Replaced HTTPRoute/cart: it answers 500; {because}"),
            "Normal FallbackConfigurationSucceeded controller, Gateway/public: successfully applied fallback configuration to \
             infra/public: 1 broken, 0 backfilled, 2 replaced, 0 excluded",
        ],
    );
    assert_eq!(driver.new_events(), Vec::<String>::new(), "nothing is told twice");
    check(
        &driver.apply(USERS),
        &[
            "Normal Recovered TrafficPolicy/guard: the object is served as desired again",
            "Normal Recovered Gateway/public: the object is served as desired again",
            "Normal Recovered HTTPRoute/cart: the object is served as desired again",
            "Normal ConfigurationSucceeded controller, Gateway/public: successfully applied configuration to infra/public",
        ],
    );
}

#[test]
fn a_refused_policy_is_reported_and_not_the_route_below() {
    let mut driver = EventScene::new(Fallback { isolate: true, ..Fallback::default() });
    driver.apply(&policy("shop", "HTTPRoute", "cart", &header("fine"), 1));
    let lines = driver.apply(&policy("shop", "HTTPRoute", "cart", &header("/refused"), 2));
    let refused: Vec<&String> = lines.iter().filter(|line| line.contains("ApplyFailed TrafficPolicy/guard")).collect();
    assert!(refused.len() == 1 && refused[0].contains("spec.headerModifiers: missing ]: ["), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("Warning Replaced HTTPRoute/cart: rules[0] answers 404")));
    assert!(!lines.iter().any(|line| line.contains("ApplyFailed HTTPRoute")), "{lines:#?}");
    let lines = driver.apply(&policy("shop", "HTTPRoute", "cart", &header("better"), 3));
    check(
        &lines,
        &[
            "Normal Recovered TrafficPolicy/guard: the object is served as desired again",
            "Normal Recovered HTTPRoute/cart: the object is served as desired again",
            "Normal ConfigurationSucceeded controller, Gateway/public: successfully applied configuration to infra/public",
        ],
    );
    assert_eq!(driver.scene.report()["status"], "not-triggered");
    assert_eq!(driver.new_events(), Vec::<String>::new(), "nothing is told twice");
}

#[test]
fn a_policy_of_which_the_last_valid_version_holds() {
    let mut driver = EventScene::new(last_valid());
    driver.apply(&policy("shop", "HTTPRoute", "cart", &header("fine"), 1));
    let lines = driver.apply(&policy("shop", "HTTPRoute", "cart", &header("/refused"), 2));
    let backfilled = "Warning Backfilled TrafficPolicy/guard: serving generation 1 (last valid, since ";
    assert!(lines.iter().any(|line| line.starts_with(backfilled)), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("HTTPRoute")), "{lines:#?}");
}

#[test]
fn a_route_that_is_still_closed_at_one_listener_has_not_recovered() {
    let mut driver = EventScene::new(last_valid());
    let more = "- {name: more, port: 8081, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}\n  - {name: http,";
    driver.apply(&BASE.replace("- {name: http,", more));
    let secret = "basicAuth: {secretRef: {name: users}}";
    driver.apply(&policy("infra", "Gateway", "public, sectionName: more", secret, 1));
    driver.apply(&route(5, "{type: RegularExpression, value: '/a['}"));
    let recovered = |lines: &[String]| lines.iter().any(|line| line.contains("Recovered HTTPRoute/cart"));
    let lines = driver.apply(&route(6, &exact("/fine")));
    assert!(!recovered(&lines), "{lines:#?}");
    let lines = driver.apply(USERS);
    assert!(recovered(&lines), "{lines:#?}");
    assert_eq!(driver.new_events(), Vec::<String>::new(), "nothing is told twice");
}
