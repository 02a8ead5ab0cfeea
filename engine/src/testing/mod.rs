//! For tests of this and other packages: YAML text to events, and an engine that has read it.

pub mod mutate;

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

/// A Gateway with two listeners, a Service with an endpoint, an HTTPRoute (one rule good, one with a broken regex, one
/// without back end) and a GRPCRoute: good to start from.
pub const SAMPLE: &str = include_str!("sample.yaml");
