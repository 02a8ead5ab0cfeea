//! Consistency of health, conditions, the fallback page and the configuration of Envoys.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_engine::engine::Engine;
use holdfast_engine::health::{Outside, SourceState};
use holdfast_fallback::view::Status;
use holdfast_xds::Snapshot;
use serde_json::Value;

use super::envoy::Envoy;
use super::invariants::{a_deleted_policy_is_in_force, difference};
use super::stage::StoryStage;

/// Conditions that are true of an object that is served as desired.
const POSITIVE: [&str; 4] = ["Accepted", "ResolvedRefs", "Programmed", "Valid"];

/// Checks that no other source reports a problem while health reports none.
pub(super) fn check(stage: &StoryStage, engine: &Engine, new: &Engine, wrong: &mut Vec<String>) {
    let mut connected: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for envoy in stage.envoys.values().filter(|envoy| envoy.connected) {
        *connected.entry(envoy.id.fleet.clone()).or_default() += 1;
    }
    let input = SourceState { read: true, objects: engine.objects().len(), ..SourceState::default() };
    let health = engine.health(Outside { input, connected, ..Outside::default() });
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

fn differences(envoy: &Envoy, new: &Engine) -> Vec<String> {
    let empty = Snapshot::default();
    difference(envoy, new.fleet(&envoy.id.fleet).unwrap_or(&empty))
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
