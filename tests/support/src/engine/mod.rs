//! An engine that has processed the objects of a YAML text, and what it serves and reports.

pub mod facts;
pub mod played;
pub mod scopes;

use holdfast_api::section;
use holdfast_api::settings::Settings;
use holdfast_graph::ObjectKey;
pub use holdfast_test_objects::{documents, mutate};
pub use holdfast_test_support::fallback::{event, events, plans, present};
use holdfast_xds::ResourceType;
use serde_json::Value;

use holdfast_engine::engine::Engine;

/// Returns an engine that has processed a YAML text.
pub fn engine(yaml: &str, settings: Settings) -> Engine {
    let mut engine = Engine::new(settings);
    engine.handle(events(yaml));
    engine
}

/// Returns the resources of every Gateway: Gateway, type, name, version and origins of each resource, in order.
pub fn served(engine: &Engine) -> Vec<(String, ResourceType, String, String, Vec<String>)> {
    let mut served = Vec::new();
    for gateway in engine.gateways() {
        let Some(snapshot) = engine.fleet(&gateway.name) else { continue };
        for kind in ResourceType::ALL {
            served.extend(snapshot.of(kind).values().map(|resource| {
                let origins = resource.origins.iter().map(ToString::to_string).collect();
                (gateway.name.to_string(), kind, resource.name.to_string(), resource.version.to_string(), origins)
            }));
        }
    }
    served
}

/// Returns deviations from the written objects that no fault reports; always empty if translation is correct.
pub fn unreported(engine: &Engine) -> Vec<String> {
    let faults = engine.faults();
    let is_reported = |object: &ObjectKey, field: &str| {
        faults.iter().any(|fault| fault.object == *object && fault.field.starts_with(field))
    };
    let mut unreported = Vec::new();
    for replaced in engine.replacements() {
        let field = format!("spec.{}", replaced.section);
        // A host as a whole is closed for any fault of its HTTPProxy.
        let whole = replaced.section == section::HOST && is_reported(&replaced.object, "");
        // The field must be a list and is not: the fault names the list.
        let list = field.split('[').next().unwrap_or_default();
        let whole = whole || faults.iter().any(|fault| fault.object == replaced.object && fault.field == list);
        // For a root that could be read before and cannot be read now, only this problem is reported.
        let whole = whole || engine.is_unreadable(&replaced.object);
        // An annotation closes every rule that it is for, and is reported once.
        let is_annotation =
            |field: &str| field.starts_with("metadata.annotations[") && replaced.message.starts_with(field);
        let whole = whole || faults.iter().any(|fault| fault.object == replaced.object && is_annotation(&fault.field));
        if !whole && !is_reported(&replaced.object, &field) && !is_reported(&replaced.object, "spec.rules") {
            unreported.push(format!("{} {field} is replaced", replaced.object));
        }
    }
    for status in engine.statuses() {
        let mut bad = Vec::new();
        conditions(&status.status, &mut bad);
        // A Gateway without acknowledgement is not at fault.
        bad.retain(|kind| kind != "Programmed");
        if !bad.is_empty() && !is_reported(&status.object, "") {
            unreported.push(format!("{} is not {}", status.object, bad.join(", ")));
        }
    }
    unreported
}

/// Collects the types of conditions that report a problem.
fn conditions(status: &Value, bad: &mut Vec<String>) {
    match status {
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
            let wrong = match text("type") {
                "Accepted" | "ResolvedRefs" | "Programmed" => text("status") == "False",
                "Conflicted" | "PartiallyInvalid" => text("status") == "True",
                _ => false,
            };
            if wrong {
                bad.push(text("type").to_owned());
            }
            fields.values().for_each(|value| conditions(value, bad));
        }
        Value::Array(values) => values.iter().for_each(|value| conditions(value, bad)),
        _ => {}
    }
}

/// A Gateway with two listeners, a Service with an endpoint, an HTTPRoute (one valid rule, one with a broken regex, one
/// without backend) and a GRPCRoute: a valid base for tests.
pub const SAMPLE: &str = include_str!("sample.yaml");
