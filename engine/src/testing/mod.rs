//! For tests of this and other packages: YAML text to events, and an engine that has read it.

#[cfg(test)]
pub(crate) mod addresses;
pub mod lines;
pub mod mistakes;
pub mod mutate;
pub mod plans;
pub mod played;
pub mod present;
pub mod texts;

use holdfast_graph::ObjectKey;
use holdfast_xds::ResourceType;
use serde_json::Value;

use crate::apis::{Decoded, decode};
use crate::engine::{Engine, Event};
use crate::settings::Settings;

/// The documents of a YAML text as JSON.
///
/// # Panics
/// Where the text is no YAML: tests write it themselves.
#[allow(clippy::panic, reason = "a test's own input")]
pub fn documents(yaml: &str) -> Vec<Value> {
    match serde_saphyr::from_multiple::<Value>(yaml) {
        Ok(documents) => documents.into_iter().filter(|document| !document.is_null()).collect(),
        Err(error) => panic!("the test's YAML does not parse: {error}"),
    }
}

/// An event for each object of a YAML text. Objects without a UID get one made from their identity.
pub fn events(yaml: &str) -> Vec<Event> {
    documents(yaml).into_iter().filter_map(event).collect()
}

/// The event of one document; `None` for what is no object of ours.
pub fn event(document: Value) -> Option<Event> {
    match decode(document, None) {
        Decoded::Object(mut object, faults) => {
            if object.metadata.uid.is_empty() {
                object.metadata.uid = object.key.to_string().into();
            }
            Some(Event::Applied(object, faults))
        }
        Decoded::Unusable(key, faults) => Some(Event::Unusable(key, faults)),
        Decoded::Foreign(_) | Decoded::Nameless(_) => None,
    }
}

/// An engine that has read a YAML text.
pub fn engine(yaml: &str, settings: Settings) -> Engine {
    let mut engine = Engine::new(settings);
    engine.handle(events(yaml));
    engine
}

/// What the Envoys of every Gateway should have: Gateway, type, name, version and origins of each resource, in order.
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

/// What is not served as written and of which no fault tells; always empty where translation keeps its promise.
pub fn untold(engine: &Engine) -> Vec<String> {
    let faults = engine.faults();
    let told = |object: &ObjectKey, field: &str| {
        faults.iter().any(|fault| fault.object == *object && fault.field.starts_with(field))
    };
    let mut untold = Vec::new();
    for replaced in engine.replacements() {
        let field = format!("spec.{}", replaced.section);
        // A host as a whole is closed for whatever is wrong with its proxy.
        let whole = replaced.section == "virtualhost" && told(&replaced.object, "");
        // A list that is none.
        let list = field.split('[').next().unwrap_or_default();
        let whole = whole || faults.iter().any(|fault| fault.object == replaced.object && fault.field == list);
        // Of a root that was read before, and cannot be any more, that alone is told.
        let whole = whole || engine.is_unreadable(&replaced.object);
        if !whole && !told(&replaced.object, &field) && !told(&replaced.object, "spec.rules") {
            untold.push(format!("{} {field} is replaced", replaced.object));
        }
    }
    for status in engine.statuses() {
        let mut bad = Vec::new();
        conditions(&status.status, &mut bad);
        // A Gateway that nobody has acknowledged yet is not at fault.
        bad.retain(|kind| kind != "Programmed");
        if !bad.is_empty() && !told(&status.object, "") {
            untold.push(format!("{} is not {}", status.object, bad.join(", ")));
        }
    }
    untold
}

/// Types of conditions that say that something is wrong.
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

/// A Gateway with two listeners, a Service with an endpoint, an HTTPRoute (one rule good, one with a broken regex, one
/// without back end) and a GRPCRoute: good to start from.
pub const SAMPLE: &str = include_str!("sample.yaml");
