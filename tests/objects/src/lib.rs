//! Test support: objects and faults of YAML texts, and broken input.

pub mod mutate;

use holdfast_api::apis::{Decoded, decode};
use holdfast_api::fault::Fault;
use holdfast_api::object::Object;
use serde_json::Value;

/// Parses the documents of a YAML text as JSON.
///
/// # Panics
/// If the text is not YAML: tests provide it themselves.
#[allow(clippy::panic, reason = "a test's own input")]
pub fn documents(yaml: &str) -> Vec<Value> {
    match serde_saphyr::from_multiple::<Value>(yaml) {
        Ok(documents) => documents.into_iter().filter(|document| !document.is_null()).collect(),
        Err(error) => panic!("the test's YAML does not parse: {error}"),
    }
}

/// Decodes a document. An object without a UID gets a UID that is derived from its identity.
pub fn decoded(document: Value) -> Decoded {
    let mut decoded = decode(document, None);
    if let Decoded::Object(object, _) = &mut decoded
        && object.metadata.uid.is_empty()
    {
        object.metadata.uid = object.key.to_string().into();
    }
    decoded
}

/// Returns the object of a document with its faults; `None` if the document is not a usable object of a supported kind.
pub fn object(document: Value) -> Option<(Box<Object>, Vec<Fault>)> {
    match decoded(document) {
        Decoded::Object(object, faults) => Some((object, faults)),
        Decoded::Unusable(..) | Decoded::Foreign(_) | Decoded::Unserved(_) | Decoded::Nameless(_) => None,
    }
}
