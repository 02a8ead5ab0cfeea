//! Unknown fields: a field without a meaning, at any place in an object, is reported and not silently dropped.
//!
//! The test adds an unknown field to every map in every object of every golden pair. Maps with free keys (labels, the
//! data of a Secret) are excluded.

use std::fs;
use std::path::Path;

use holdfast_api::apis::{Decoded, decode};
use holdfast_test_support as testing;
use serde_json::{Value, json};

/// Maps with keys that users choose.
const FREE: [&str; 9] =
    ["labels", "annotations", "matchLabels", "options", "data", "stringData", "context", "json", "jsonFormat"];
/// Kinds that are decoded in part, deliberately: the other fields do not concern a gateway.
const PARTLY_READ: [&str; 3] = ["ConfigMap", "Namespace", "Secret"];
/// The unknown field.
const STRANGE: &str = "holdfastTestField";

#[test]
fn an_unknown_field_is_reported_at_any_place() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let mut tried = 0;
    for area in fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path()) {
        for path in fs::read_dir(area).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.to_str().unwrap();
            if !name.ends_with(".yaml") || name.ends_with(".out.yaml") {
                continue;
            }
            // A step begins a new YAML document.
            let text = fs::read_to_string(&path).unwrap().replace("\n# step:", "\n--- # step:");
            for document in testing::documents(&text) {
                tried += try_document(name, &document);
            }
        }
    }
    assert!(tried > 2000, "only {tried} places were tried");
}

fn try_document(name: &str, document: &Value) -> usize {
    let kind = document["kind"].as_str().unwrap_or_default();
    let Decoded::Object(_, before) = decode(document.clone(), None) else { return 0 };
    if PARTLY_READ.contains(&kind) {
        return 0;
    }
    let mut places = Vec::new();
    gather(document, String::new(), &mut places);
    places.retain(|place| place.starts_with("/spec") || place.starts_with("/endpoints") || place.starts_with("/ports"));
    // This value is a response body with fields that users choose.
    places.retain(|place| !place.starts_with("/spec/bodyFormat/json"));
    for place in &places {
        let mut changed = document.clone();
        changed.pointer_mut(place).unwrap().as_object_mut().unwrap().insert(STRANGE.into(), json!(1));
        let after = match decode(changed, None) {
            Decoded::Object(_, faults) | Decoded::Unusable(_, faults) => faults,
            Decoded::Unserved(fault) => panic!("{fault}"),
            Decoded::Foreign(why) | Decoded::Nameless(why) => panic!("{why}"),
        };
        let path = field_path(place);
        // A fault of a part as a whole covers the fields in it.
        let is_reported =
            |field: &str| field == format!("{path}.{STRANGE}") || (!field.is_empty() && is_in(&path, field));
        // An access log only observes requests: if a part of it cannot be read, it is left out with a warning.
        let left_out = |field: &str| field.contains(".accessLog[") && path.contains(".accessLog[");
        let broken_part = before.iter().any(|fault| fault.is_error() || left_out(&fault.field));
        assert!(
            after.iter().any(|fault| is_reported(&fault.field)) || broken_part,
            "{name}: {kind}: nothing tells of {path}.{STRANGE}: {after:?}"
        );
    }
    places.len()
}

/// Converts `/spec/rules/0/matches` to `spec.rules[0].matches`.
fn field_path(place: &str) -> String {
    place.split('/').skip(1).fold(String::new(), |path, part| match part.parse::<usize>() {
        Ok(index) => format!("{path}[{index}]"),
        Err(_) if path.is_empty() => part.to_owned(),
        Err(_) => format!("{path}.{part}"),
    })
}

fn is_in(path: &str, part: &str) -> bool {
    path.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn gather(value: &Value, path: String, places: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| !FREE.contains(&name.as_str())) {
                gather(value, format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), places);
            }
            places.push(path);
        }
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(index, value)| gather(value, format!("{path}/{index}"), places));
        }
        _ => {}
    }
}
