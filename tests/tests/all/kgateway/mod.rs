//! kgateway's kinds are known as its own schemas have them: every field decodes, and none is passed over in silence.

mod shown;

use holdfast_engine::apis::{Decoded, decode};
use holdfast_engine::fault::Fault;
use holdfast_engine::testing;
use serde_json::json;

use crate::contour::sample;

/// The schemas, from kgateway.
const SCHEMAS: &str = include_str!("schemas.yaml");

#[test]
fn every_field_of_the_schemas_is_known() {
    let schemas = testing::documents(SCHEMAS).remove(0);
    let mut fields = 0;
    for (kind, schema) in schemas.as_object().unwrap() {
        let document = json!({
            "apiVersion": format!("gateway.kgateway.dev/{}", schema["version"].as_str().unwrap()),
            "kind": kind,
            "metadata": {"name": "all"},
            "spec": sample(&schema["spec"], &mut fields),
        });
        match decode(document, None) {
            Decoded::Object(_, faults) => {
                // What is known and not served is told as well.
                let known = |fault: &Fault| {
                    fault.reason == "NotServed"
                        || fault.message.contains("served by this")
                        || fault.field == "spec.status"
                        // The sample has everything, also what excludes each other.
                        || fault.message.contains("only one of")
                        || fault.message.contains("exactly one of")
                };
                let told: Vec<String> = faults.iter().filter(|fault| !known(fault)).map(ToString::to_string).collect();
                assert_eq!(told, Vec::<String>::new(), "{kind}");
            }
            other => panic!("{kind}: {other:?}"),
        }
    }
    assert!(fields > 500, "only {fields} fields were tried");
}

#[test]
fn what_cannot_be_read_of_a_policy_is_kept_with_its_targets() {
    let document = json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1",
        "kind": "TrafficPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r"}],
            "basicAuht": {"users": ["a"]},
            "timeouts": "30s",
        },
    });
    let Decoded::Object(object, faults) = decode(document, None) else { panic!("it is thrown away") };
    let holdfast_engine::apis::Body::TrafficPolicy(policy) = &object.body else { panic!("{:?}", object.body) };
    assert_eq!(policy.targets.references.len(), 1);
    assert!(policy.spec.is_none());
    assert!(!policy.unread.is_empty());
    assert!(faults.iter().all(|fault| fault.is_error()), "{faults:?}");
}
