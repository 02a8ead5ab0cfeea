//! Events of engines that are driven with objects; simulated Envoys (`PlayedEnvoy`) refuse certain words.

mod policies;

use holdfast_api::settings::Fallback;

use super::*;
use crate::report::survey::tests::{Scene, envoys, exact, filtered, last_valid, route};

/// Drives a scene, and returns the events after each step.
struct EventScene {
    scene: Scene,
    report: FallbackReport,
}

impl EventScene {
    fn new(fallback: Fallback) -> Self {
        let scene = Scene::new(fallback, envoys());
        let mut driver = Self { scene, report: FallbackReport::default() };
        let lines = driver.new_events();
        assert_eq!(
            lines,
            ["Normal ConfigurationSucceeded controller: successfully applied configuration to infra/public"]
        );
        driver
    }

    fn new_events(&mut self) -> Vec<String> {
        let now = self.scene.engine.fallback().after(&self.report);
        let objects = self.scene.engine.objects();
        let events = events(&self.report, &now, |key| objects.get(key).is_some());
        self.report = now;
        let line = |FallbackEvent { reason, regarding, note }: FallbackEvent| {
            let regarding = match regarding {
                Regarding::Controller => "controller".to_owned(),
                Regarding::Object(object) => format!("{}/{}", object.kind, object.name),
                Regarding::Deleted(object) => format!("deleted {}/{}", object.kind, object.name),
            };
            let kind = if reason.is_warning() { "Warning" } else { "Normal" };
            format!("{kind} {reason} {regarding}: {note}")
        };
        let mut lines: Vec<String> = Vec::new();
        for line in events.into_iter().map(line) {
            // The events of the controller and of its Gateway are one line here.
            let merged = lines.last().and_then(|last| merged(last, &line));
            match merged {
                Some(merged) => *lines.last_mut().unwrap() = merged,
                None => lines.push(line),
            }
        }
        lines
    }

    fn apply(&mut self, yaml: &str) -> Vec<String> {
        self.scene.apply(yaml);
        self.new_events()
    }
}

/// Returns the merged line of two lines, if one is for the controller and the other for the Gateway, with the same
/// message.
fn merged(last: &str, line: &str) -> Option<String> {
    let both = last.replacen(" controller: ", " controller, Gateway/public: ", 1);
    (line.replacen(" Gateway/public: ", " controller, Gateway/public: ", 1) == both && both != last).then_some(both)
}

#[track_caller]
fn check(lines: &[String], expected: &[&str]) {
    // Times differ with the steps of the scene.
    let times = |line: &String| match (line.find("since "), line.find("Z)")) {
        (Some(from), Some(to)) if from < to => format!("{}since …{}", &line[..from], &line[to + 1..]),
        _ => line.clone(),
    };
    assert_eq!(lines.iter().map(times).collect::<Vec<_>>(), expected);
}

#[test]
fn a_refused_route_has_events_when_it_breaks_and_when_it_recovers() {
    let mut driver = EventScene::new(last_valid());
    let lines = driver.apply(&route(5, &exact("/refused")));
    check(
        &lines,
        &[
            "Warning ConfigurationApplyFailed HTTPRoute/cart: Envoy refused this object at infra/public: spec.rules[1]: missing ]: [",
            "Warning ConfigurationApplyFailed controller, Gateway/public: failed to apply configuration to infra/public: 1 refused; \
             gateway.networking.k8s.io/HTTPRoute:shop/cart: spec.rules[1]: missing ]: [",
            "Warning Backfilled HTTPRoute/cart: serving generation 4 (last valid, since …); generation 5 was refused: \
             spec.rules[1]: missing ]: [",
            "Normal FallbackConfigurationSucceeded controller, Gateway/public: successfully applied fallback configuration to \
             infra/public: 1 broken, 1 backfilled, 0 replaced, 0 excluded",
        ],
    );
    assert_eq!(driver.new_events(), Vec::<String>::new(), "nothing is told twice");
    check(
        &driver.apply(&route(6, &exact("/fine"))),
        &[
            "Normal Recovered HTTPRoute/cart: the object is served as desired again",
            "Normal ConfigurationSucceeded controller, Gateway/public: successfully applied configuration to infra/public",
        ],
    );
}

#[test]
fn a_refusal_during_a_fallback_is_reported_as_such() {
    let mut driver = EventScene::new(Fallback { isolate: true, ..Fallback::default() });
    let lines = driver.apply(&route(5, "{type: RegularExpression, value: '/a['}"));
    check(
        &lines,
        &[
            "Warning ConfigurationTranslationFailed HTTPRoute/cart: spec.rules[1].matches[0].path.value: invalid regex: \
             missing ]: \"[\"",
            "Warning Replaced HTTPRoute/cart: rules[1] answers 404; generation 5 was refused: \
             spec.rules[1].matches[0].path.value: invalid regex: missing ]: \"[\"",
            "Normal FallbackConfigurationSucceeded controller, Gateway/public: successfully applied fallback configuration to \
             infra/public: 1 broken, 0 backfilled, 1 replaced, 0 excluded",
        ],
    );
    let other = route(1, &filtered("/refused"))
        .replace("name: cart, namespace: shop, uid: route-1", "name: pay, namespace: shop, uid: route-2");
    let lines = driver.apply(&other.replace("/cart", "/pay"));
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("Warning FallbackConfigurationApplyFailed HTTPRoute/pay")).count(),
        1,
        "{lines:#?}"
    );
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("Warning Replaced HTTPRoute/pay: rules[1] answers 404")).count(),
        1,
        "{lines:#?}"
    );
    assert!(!lines.iter().any(|line| line.contains("Replaced HTTPRoute/cart")), "{lines:#?}");
    assert!(lines.last().unwrap().contains("2 broken, 0 backfilled, 2 replaced, 0 excluded"), "{lines:#?}");

    let key = ObjectKey::new("gateway.networking.k8s.io", "HTTPRoute", "shop", "pay");
    driver.scene.delete(key);
    let lines = driver.new_events();
    assert_eq!(
        lines.first().unwrap(),
        "Normal Recovered deleted HTTPRoute/pay: the object is deleted, and its faults with it"
    );
}

#[test]
fn an_incomplete_stand_in_is_reported() {
    // The rule that stays whole has another backend than the refused rule.
    let two = |generation, path: &str| {
        route(generation, path).replacen("backendRefs: [{name: cart", "backendRefs: [{name: pay", 1)
    };
    let mut driver = EventScene::new(last_valid());
    driver.apply("apiVersion: v1\nkind: Service\nmetadata: {name: pay, namespace: shop}\nspec: {ports: [{port: 80}]}");
    driver.apply(&two(5, &exact("/fine")));
    driver.apply(&two(6, &exact("/refused")));
    driver.scene.delete(ObjectKey::new("", "Service", "shop", "pay"));
    let lines = driver.new_events();
    let expected = "Warning FallbackConfigurationTranslationFailed HTTPRoute/cart: its stand-in version at infra/public is not served completely: rules[0]: ";
    assert!(lines.iter().any(|line| line.starts_with(expected)), "{lines:#?}");
}

#[test]
fn a_gateway_with_a_closed_listener_is_no_success() {
    let mut scene = Scene::new(last_valid(), envoys());
    let secure = "- {name: tls, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: shop}]}}\n  - {name: http,";
    let open = crate::report::survey::tests::BASE.replace("- {name: http,", secure);
    scene.apply(&open);
    let mut driver = EventScene { scene, report: FallbackReport::default() };
    assert_eq!(driver.new_events(), Vec::<String>::new(), "connections to the listener are refused");
    let lines = driver.apply(include_str!("../../../../tests/golden/include/certificates.yaml"));
    let success =
        "Normal ConfigurationSucceeded controller, Gateway/public: successfully applied configuration to infra/public";
    check(&lines, &[success]);
}

#[test]
fn every_reason_has_a_name_and_a_type() {
    for reason in Reason::ALL {
        let word = reason.to_string();
        assert!(word.chars().all(|c| c.is_ascii_alphabetic()), "{word}");
        assert_eq!(reason.is_warning(), !word.ends_with("Succeeded") && word != "Recovered", "{word}");
    }
}
