//! YAML texts to events, and plans of the fallback.

pub mod plans;
pub mod present;

use holdfast_api::apis::Decoded;
use holdfast_test_objects::{decoded, documents};
use serde_json::Value;

use holdfast_fallback::scope::event::Event;

/// Returns an event for each object of a YAML text.
pub fn events(yaml: &str) -> Vec<Event> {
    documents(yaml).into_iter().filter_map(event).collect()
}

/// Returns the event of one document; `None` if the document is not an object of a supported kind.
pub fn event(document: Value) -> Option<Event> {
    match decoded(document) {
        Decoded::Object(object, faults) => Some(Event::Applied(object, faults)),
        Decoded::Unusable(key, faults) => Some(Event::Unusable(key, faults)),
        Decoded::Foreign(_) | Decoded::Unserved(_) | Decoded::Nameless(_) => None,
    }
}
