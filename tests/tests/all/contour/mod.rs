//! Contour's kinds against Contour's schemas: every field decodes, and no field is silently ignored.

mod manifests;
mod rows;
mod statuses;

use holdfast_api::apis::{Decoded, decode};
use holdfast_test_support as testing;
use serde_json::{Map, Value, json};

/// The schemas of Contour.
const SCHEMAS: &str = include_str!("schemas.yaml");

/// Returns a value with every field of a schema, and adds the number of fields to `fields`; lists have one entry.
pub(crate) fn sample(schema: &Value, fields: &mut usize) -> Value {
    if let Some(first) = schema.get("enum").and_then(|values| values.get(0)) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("array") => json!([sample(&schema["items"], fields)]),
        Some("string") => json!("text"),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        _ => match schema.get("properties").and_then(Value::as_object) {
            Some(properties) => {
                *fields += properties.len();
                let entries = properties.iter().map(|(name, schema)| (name.clone(), sample(schema, fields)));
                Value::Object(entries.collect::<Map<_, _>>())
            }
            None if schema.get("additionalProperties").is_some() => json!({"key": "value"}),
            None => json!({}),
        },
    }
}

#[test]
fn every_field_of_the_schemas_is_known() {
    let schemas = testing::documents(SCHEMAS).remove(0);
    let mut fields = 0;
    for (kind, schema) in schemas.as_object().unwrap() {
        let document = json!({
            "apiVersion": format!("projectcontour.io/{}", schema["version"].as_str().unwrap()),
            "kind": kind,
            "metadata": {"name": "all"},
            "spec": sample(&schema["spec"], &mut fields),
        });
        match decode(document, None) {
            Decoded::Object(_, faults) => {
                let known = |reason: &str| reason == "NotServed";
                let unexpected: Vec<String> =
                    faults.iter().filter(|fault| !known(fault.reason)).map(ToString::to_string).collect();
                assert_eq!(unexpected, Vec::<String>::new(), "{kind}");
            }
            other => panic!("{kind}: {other:?}"),
        }
    }
    assert!(fields > 300, "only {fields} fields were tried");
}
