//! Consistency of health, conditions, the fallback page and the configuration of Envoys.

use std::collections::BTreeSet;

use holdfast_api::apis::kinds;
use holdfast_api::fault::Class;
use holdfast_api::status::FALLBACK_CONDITION;
use holdfast_engine::engine::Engine;
use holdfast_engine::health::Health;
use holdfast_engine::health::view::ObjectAtFault;
use holdfast_engine::report::ReplacementView;
use holdfast_fallback::served_state::speaking;
use holdfast_fallback::view::{BrokenObject, ClosedBy, Identity, Scope, Status};
use holdfast_graph::{Detected, ObjectKey};
use holdfast_test_support::scopes::{ScopeSeen, scopes};
use holdfast_xds::Snapshot;
use serde_json::Value;

use super::envoy::Envoy;
use super::expect::name;
use super::health;
use super::invariants::{a_deleted_policy_is_in_force, difference};
use super::stage::StoryStage;

/// Conditions that are true of an object that is served as desired.
const POSITIVE: [&str; 4] = ["Accepted", "ResolvedRefs", "Programmed", "Valid"];

/// Kinds with parts that translation closes for a mistake that another condition than the one of the fallback reports.
const OWN_MISTAKES: [&str; 2] = [kinds::BACKEND, kinds::HTTP_PROXY];

/// Types of conditions that report a problem while they are true.
const NEGATIVE: [&str; 2] = ["PartiallyInvalid", FALLBACK_CONDITION];

/// Checks that no other source reports a problem while health reports none, and that the status of each broken
/// object reports a problem.
pub(super) fn check(stage: &StoryStage, engine: &Engine, new: &Engine, wrong: &mut Vec<String>) {
    let health = health::health(stage, engine);
    health::check(stage, engine, &health, wrong);
    broken_objects_report_it(engine, wrong);
    refused_objects_are_not_suspected_in_conditions(engine, wrong);
    conditions_are_there_once(engine, wrong);
    reasons_are_given(engine, wrong);
    reasons_are_given_for_missing_backends(engine, &health, wrong);
    what_is_closed_triggers(engine, wrong);
    what_is_replaced_is_on_the_page(engine, wrong);
    what_the_page_lists_has_a_condition(engine, wrong);
    refused_policies_are_no_references(engine, wrong);
    what_holds_everything_is_on_the_page(engine, wrong);
    if !(health.outages.is_empty() && health.degraded.is_empty() && health.warnings.is_empty()) {
        return;
    }
    let mut lie = |what: String| wrong.push(format!("health reports no problem, and {what}"));
    if engine.fallback().status == Status::Triggered {
        lie("the fallback page does".to_owned());
    }
    for status in engine.statuses() {
        let mut negative = Vec::new();
        collect(&status.status, &mut negative);
        negative.into_iter().for_each(|condition| lie(format!("{} has {condition}", status.object)));
    }
    if a_deleted_policy_is_in_force(stage, engine) {
        return;
    }
    let all = stage.envoys.values().filter(|envoy| envoy.connected && !envoy.silent && !envoy.ignores);
    for (envoy, differences) in all.map(|envoy| (envoy, differences(envoy, new))) {
        for slot in differences {
            lie(format!("{} has another {slot} than what is desired", envoy.id.node));
        }
    }
}

/// Checks that the status of each broken object has a condition that reports a problem, if it has any condition. A
/// listener that the host of one Envoy cannot bind is programmed at the others.
fn broken_objects_report_it(engine: &Engine, wrong: &mut Vec<String>) {
    let broken: BTreeSet<ObjectKey> =
        engine.fallback().broken_objects.iter().map(|broken| broken.object.key()).collect();
    let is_broken = |key: &ObjectKey| broken.contains(key) && &*key.kind != kinds::GATEWAY;
    for status in engine.statuses().into_iter().filter(|status| is_broken(&status.object)) {
        let (mut negative, mut all) = (Vec::new(), Vec::new());
        collect(&status.status, &mut negative);
        types(&status.status, &mut all);
        let reports_it = !negative.is_empty() || all.iter().any(|kind| NEGATIVE.contains(kind));
        if !all.is_empty() && !reports_it {
            wrong.push(format!("{} is broken, and its status reports no problem: {}", status.object, status.status));
        }
    }
}

/// Checks that no condition of an object reports a suspicion where the page reports that the object was refused.
fn refused_objects_are_not_suspected_in_conditions(engine: &Engine, wrong: &mut Vec<String>) {
    let is_refused = |broken: &&BrokenObject| matches!(broken.detected_by, Detected::Nack | Detected::Probe);
    // The page shows the firmest of several Gateways.
    let all = engine.fallback().broken_objects;
    for broken in all.iter().filter(is_refused).filter(|broken| broken.gateways.len() == 1) {
        let conditions = conditions_of(engine, &name(&broken.object.key()));
        if let Some(condition) = conditions.iter().find(|condition| condition.contains("suspected: ")) {
            wrong.push(format!("{} is refused, and has the condition {condition}", broken.object.key()));
        }
    }
}

/// Checks that no list of conditions has a type twice: the API server refuses such a status as a whole.
fn conditions_are_there_once(engine: &Engine, wrong: &mut Vec<String>) {
    for status in engine.statuses() {
        let mut twice = Vec::new();
        types_there_twice(&status.status, &mut twice);
        twice.into_iter().for_each(|kind| wrong.push(format!("{} has the condition {kind} twice", status.object)));
    }
}

/// Collects the types that a list of conditions has several times, at any depth. Errors of an HTTPProxy below a condition
/// are no such list.
fn types_there_twice(status: &Value, twice: &mut Vec<String>) {
    match status {
        Value::Array(values) => values.iter().for_each(|value| types_there_twice(value, twice)),
        Value::Object(fields) => {
            let conditions = fields.get("conditions").and_then(Value::as_array).into_iter().flatten();
            let mut known = BTreeSet::new();
            let again = conditions.filter_map(|one| one.get("type")?.as_str()).filter(|kind| !known.insert(*kind));
            twice.extend(again.map(str::to_owned));
            fields.values().for_each(|value| types_there_twice(value, twice));
        }
        _ => {}
    }
}

/// Returns the conditions of an object, or of an object at a parent (`HTTPRoute/shop/cart at Gateway/infra/public`), each as
/// `Accepted=False Invalid: message`.
pub(super) fn conditions_of(engine: &Engine, object: &str) -> Vec<String> {
    let (object, parent) = object.split_once(" at ").map_or((object, None), |(object, at)| (object, Some(at)));
    let mut conditions = Vec::new();
    let own = engine.statuses().into_iter().filter(|status| name(&status.object) == object);
    own.for_each(|status| match parent {
        Some(parent) => {
            let parents = status.status.get("parents").and_then(Value::as_array).into_iter().flatten();
            parents.filter(|one| is_at(one, parent)).for_each(|one| written(one, &mut conditions));
        }
        None => written(&status.status, &mut conditions),
    });
    conditions
}

/// Returns whether an entry of a status is about a parent: `Gateway/infra/public`.
fn is_at(entry: &Value, parent: &str) -> bool {
    let field = |name: &str| entry.get("parentRef").and_then(|of| of.get(name)?.as_str()).unwrap_or_default();
    [field("kind"), field("namespace"), field("name")].join("/") == parent
}

/// Collects the conditions in a status, at any depth.
fn written(status: &Value, conditions: &mut Vec<String>) {
    match status {
        Value::Array(values) => values.iter().for_each(|value| written(value, conditions)),
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
            if fields.contains_key("type") && fields.contains_key("status") {
                let [kind, status, reason, message] = ["type", "status", "reason", "message"].map(text);
                conditions.push(format!("{kind}={status} {reason}: {message}"));
            }
            fields.values().for_each(|value| written(value, conditions));
        }
        _ => {}
    }
}

/// Checks that each broken object that is not served in its last valid version has the reason on the page, and in the
/// condition that reports its step.
fn reasons_are_given(engine: &Engine, wrong: &mut Vec<String>) {
    let gates = &engine.settings().fallback;
    let all = scopes(engine);
    if !gates.isolate || !gates.use_last_valid || all.iter().any(|scope| scope.held_as_a_whole) {
        return;
    }
    // A held listener is served in its acknowledged version; another object may close it.
    let is_decided = |key: &ObjectKey| all.iter().any(|scope| scope.broken.keys().any(|node| node.key == *key));
    let report = engine.fallback();
    let steps = |object: &Identity| {
        let is = |other: &Identity| other == object;
        let closed = report.replaced_objects.iter().map(|known| &known.object);
        let closed = closed.chain(report.excluded_objects.iter().map(|known| &known.object)).any(is);
        closed && !report.backfilled_objects.iter().any(|known| is(&known.object))
    };
    let statuses = engine.statuses();
    let decided = report.broken_objects.iter().filter(|broken| is_decided(&broken.object.key()));
    for broken in decided.filter(|broken| steps(&broken.object)) {
        let key = broken.object.key();
        let Some(why) = &broken.not_backfilled else {
            wrong.push(format!("{key} is closed, and no reason is given why no last valid version is served"));
            continue;
        };
        let status = statuses.iter().find(|status| status.object == key).map(|status| status.status.to_string());
        let quoted = serde_json::to_string(&**why).unwrap_or_default();
        let has = |status: &String| status.contains(quoted.trim_matches('"'));
        if status.as_ref().is_some_and(|status| status.contains(FALLBACK_CONDITION) && !has(status)) {
            wrong.push(format!("the conditions of {key} do not give the reason {why:?}: {status:?}"));
        }
    }
}

/// Checks that each route that lacks a backend and is not served in the last valid version that it has gives the reason in
/// its finding.
fn reasons_are_given_for_missing_backends(engine: &Engine, health: &Health, wrong: &mut Vec<String>) {
    let gates = &engine.settings().fallback;
    if !gates.isolate || !gates.use_last_valid {
        return;
    }
    let findings = health.outages.iter().chain(&health.degraded).chain(&health.warnings);
    let subjects: Vec<&ObjectAtFault> = findings.flat_map(|finding| &finding.objects).collect();
    for view in engine.replacements().into_iter().filter(|view| view.lacks_backend && view.policy.is_none()) {
        let Some(desired) = engine.objects().get(&view.object) else { continue };
        let mut scopes = speaking(engine.scopes.of(&view.gateway)).filter(|scope| !scope.whole.held);
        let has_version = scopes.any(|scope| {
            let mut versions = scope.evidence.last_valid.of(&view.object, Some(&desired.metadata.uid));
            let is_served = scope.derived.served.contains_key(&view.object);
            !is_served && versions.any(|version| version.object.body != desired.body)
        });
        let mut own = subjects.iter().filter(|subject| subject.object.key() == view.object).peekable();
        if has_version && own.peek().is_some() && !own.any(|subject| subject.not_backfilled.is_some()) {
            wrong.push(format!("{} lacks a backend, and no reason is given for no last valid version", view.object));
        }
    }
}

/// Checks that the page reports a fallback while a listener is not served, or a route answers a replacement.
fn what_is_closed_triggers(engine: &Engine, wrong: &mut Vec<String>) {
    let report = engine.fallback();
    if report.status == Status::Triggered {
        return;
    }
    wrong.extend(engine.replacements().into_iter().map(|view| format!("the page is not triggered with {view:?}")));
    for gateway in engine.gateways() {
        let closed = gateway.listeners.iter().filter(|listener| !listener.serving);
        wrong.extend(closed.map(|one| format!("the page is not triggered, and {} is closed", one.name)));
    }
}

/// Checks that the fallback page lists every object of which a part answers a replacement. A Gateway that is held is
/// reported as such.
fn what_is_replaced_is_on_the_page(engine: &Engine, wrong: &mut Vec<String>) {
    let report = engine.fallback();
    let replaced = report.replaced_objects.iter().map(|known| known.object.key());
    let excluded = report.excluded_objects.iter().map(|known| known.object.key());
    let listed: BTreeSet<ObjectKey> = replaced.chain(excluded).collect();
    let is_held = |gateway: &str| report.gateway(gateway).is_some_and(|state| state.deviations.held);
    let views = engine.replacements().into_iter().filter(|view| !is_held(&view.gateway));
    let missing = views.filter(|view| !listed.contains(&view.object));
    wrong.extend(missing.map(|view| format!("the page lists no replacement of {view:?}")));
}

/// Checks that each object with a replaced or excluded part on the page has the condition that reports it. A missing
/// backend is reported by `ResolvedRefs`, a listener by its own conditions, and an object that cannot be read, a Backend
/// or an HTTPProxy that translation closes by a condition about the mistake.
fn what_the_page_lists_has_a_condition(engine: &Engine, wrong: &mut Vec<String>) {
    let report = engine.fallback();
    let replaced = report.replaced_objects.iter().map(|known| (&known.object, known.scope, known.closed_by));
    let excluded = report.excluded_objects.iter().map(|known| (&known.object, known.scope, known.closed_by));
    let listed = replaced.chain(excluded).filter(|(_, _, closed_by)| *closed_by != ClosedBy::MissingBackend);
    let is_listener =
        |(_, scope, by): &(&Identity, Scope, ClosedBy)| *scope == Scope::Listener && *by != ClosedBy::Step;
    for (object, scope, _) in listed.filter(|listed| !is_listener(listed)) {
        let key = object.key();
        let conditions = conditions_of(engine, &name(&key));
        let fallback = format!("{FALLBACK_CONDITION}=True");
        let has_own = engine.is_unreadable(&key) || OWN_MISTAKES.contains(&&*key.kind);
        let reports = |one: &String| one.starts_with(&fallback) || (has_own && one.contains("=False "));
        if !conditions.is_empty() && !conditions.iter().any(reports) {
            wrong.push(format!("the page lists {key} ({scope:?}), and its conditions are {conditions:?}"));
        }
    }
}

/// Checks that the replacement of a unit with a policy that Envoys refuse does not report that an object cannot be read.
fn refused_policies_are_no_references(engine: &Engine, wrong: &mut Vec<String>) {
    let report = engine.fallback();
    let refused = |broken: &&BrokenObject| broken.detected_by != Detected::Translation;
    let refused: BTreeSet<ObjectKey> =
        report.broken_objects.iter().filter(refused).map(|broken| broken.object.key()).collect();
    let of_refused = |view: &&ReplacementView| view.policy.as_ref().is_some_and(|policy| refused.contains(policy));
    for view in engine.replacements().iter().filter(of_refused) {
        if view.cause == Class::Referential || view.message.contains("cannot be read") {
            wrong
                .push(format!("{} {}: Envoys refuse the policy, and not: {}", view.object, view.section, view.message));
        }
    }
}

/// Checks that the page of messages of Envoys has the refusal because of which everything is held. There is none if
/// Envoys died or did not respond.
fn what_holds_everything_is_on_the_page(engine: &Engine, wrong: &mut Vec<String>) {
    let errors = engine.raw_errors();
    let gateways = errors.get("errors").and_then(Value::as_array).into_iter().flatten();
    let gateways: BTreeSet<&str> = gateways.filter_map(|error| error.get("gateway")?.as_str()).collect();
    let refused = |scope: &ScopeSeen| scope.broken.values().any(|(_, message)| message.contains("Envoy refused"));
    let held = scopes(engine).into_iter().filter(|scope| scope.held_as_a_whole && refused(scope));
    for scope in held.filter(|scope| !gateways.contains(&*scope.gateway)) {
        wrong.push(format!("{} is held, and no message of an Envoy is on the page", scope.gateway));
    }
}

fn differences(envoy: &Envoy, new: &Engine) -> Vec<String> {
    let empty = Snapshot::default();
    difference(envoy, new.fleet(&envoy.id.fleet).unwrap_or(&empty))
}

/// Collects the types of the conditions in a status that are true, at any depth.
fn types<'a>(status: &'a Value, all: &mut Vec<&'a str>) {
    match status {
        Value::Array(values) => values.iter().for_each(|value| types(value, all)),
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str);
            all.extend(text("type").filter(|_| text("status") == Some("True")));
            fields.values().for_each(|value| types(value, all));
        }
        _ => {}
    }
}

/// Collects the conditions in a status, at any depth, that report a problem.
fn collect(status: &Value, negative: &mut Vec<String>) {
    match status {
        Value::Array(values) => values.iter().for_each(|value| collect(value, negative)),
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
            if POSITIVE.contains(&text("type")) && text("status") != "True" {
                negative.push(format!("{}={}: {}: {}", text("type"), text("status"), text("reason"), text("message")));
            }
            fields.values().for_each(|value| collect(value, negative));
        }
        _ => {}
    }
}
