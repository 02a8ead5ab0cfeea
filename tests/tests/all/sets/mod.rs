//! ListenerSet and Gateway against Gateway API's schemas: every field decodes.

use holdfast_api::apis::{Decoded, decode};
use holdfast_test_support as testing;
use serde_json::json;

use crate::contour::sample;

/// The schemas of Gateway API.
const SCHEMAS: &str = include_str!("schemas.yaml");

#[test]
fn every_field_of_the_schemas_is_known() {
    let schemas = testing::documents(SCHEMAS).remove(0);
    let mut fields = 0;
    for (kind, schema) in schemas.as_object().unwrap() {
        let document = json!({
            "apiVersion": format!("gateway.networking.k8s.io/{}", schema["version"].as_str().unwrap()),
            "kind": kind,
            "metadata": {"name": "all"},
            "spec": sample(&schema["spec"], &mut fields),
        });
        match decode(document, None) {
            Decoded::Object(_, faults) => assert_eq!(faults, [], "{kind}"),
            other => panic!("{kind}: {other:?}"),
        }
    }
    assert!(fields > 30, "only {fields} fields were tried");
}
