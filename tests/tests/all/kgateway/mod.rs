//! kgateway's kinds against kgateway's schemas: every field decodes, and no field is silently ignored.

mod rows;
mod shown;

use holdfast_api::apis::{Decoded, decode};
use holdfast_api::fault::Fault;
use holdfast_test_support as testing;
use serde_json::json;

use crate::contour::sample;

/// The schemas of kgateway.
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
                // Fields that are known and not served have a fault, too.
                let known = |fault: &Fault| {
                    fault.reason == "NotServed"
                        || fault.message.contains("served by this")
                        || fault.field == "spec.status"
                        // The sample has all fields, including mutually exclusive ones.
                        || fault.message.contains("only one of")
                        || fault.message.contains("exactly one of")
                        // It has the same text in every field, which is no kind.
                        || fault.message.contains("cannot be attached to objects of kind text/text")
                };
                let unexpected: Vec<String> =
                    faults.iter().filter(|fault| !known(fault)).map(ToString::to_string).collect();
                assert_eq!(unexpected, Vec::<String>::new(), "{kind}");
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
    let holdfast_api::apis::Body::TrafficPolicy(policy) = &object.body else { panic!("{:?}", object.body) };
    assert_eq!(policy.targets.references.len(), 1);
    assert!(policy.spec.is_none());
    assert!(!policy.unread.is_empty());
    assert!(faults.iter().all(|fault| fault.is_error()), "{faults:?}");
}

/// The fields that protect, by kind; the test sets each of them to values of wrong types.
const PROTECTING: [(&str, &[&str]); 4] = [
    (
        "TrafficPolicy",
        &[
            "extAuth",
            "extProc",
            "jwtAuth",
            "basicAuth",
            "apiKeyAuth",
            "rbac",
            "acl",
            "rateLimit",
            "oauth2",
            "csrf",
            "cors",
            "buffer",
            "headerModifiers",
        ],
    ),
    ("ListenerPolicy", &["default", "perPort"]),
    ("BackendConfigPolicy", &["tls"]),
    ("BackendTLSPolicy", &["validation"]),
];

fn targets(document: &serde_json::Value) -> (usize, usize) {
    use holdfast_api::apis::Body;
    let Decoded::Object(object, faults) = decode(document.clone(), None) else { panic!("thrown away: {document}") };
    let (targets, unread) = match &object.body {
        Body::TrafficPolicy(policy) => (&policy.targets, &policy.unread),
        Body::ListenerPolicy(policy) => (&policy.targets, &policy.unread),
        Body::BackendConfigPolicy(policy) => (&policy.targets, &policy.unread),
        Body::BackendTlsPolicy(policy) => (&policy.targets, &policy.unread),
        other => panic!("{other:?}"),
    };
    assert!(!unread.is_empty() && faults.iter().all(Fault::is_error), "{document}: {faults:?}");
    (targets.references.len(), targets.selectors.len())
}

#[test]
fn whatever_is_wrong_with_a_policy_its_targets_are_known() {
    for (kind, fields) in PROTECTING {
        let group = if kind == "BackendTLSPolicy" { "gateway.networking.k8s.io" } else { "gateway.kgateway.dev" };
        let version = if kind == "BackendTLSPolicy" { "v1" } else { "v1alpha1" };
        let whole = json!({
            "apiVersion": format!("{group}/{version}"),
            "kind": kind,
            "metadata": {"name": "p"},
            "spec": {
                "targetRefs": [{"group": "", "kind": "Service", "name": "a"}],
                "targetSelectors": [{"group": "", "kind": "Service", "matchLabels": {"a": "b"}}],
            },
        });
        for field in fields {
            for value in [json!(5), json!("text"), json!(true)] {
                let mut wrong = whole.clone();
                wrong["spec"][field] = value;
                assert_eq!(targets(&wrong), (1, 1), "{kind} {field}");
            }
        }
        let wrong = [
            ("/apiVersion", json!(format!("{group}/v9"))),
            ("/metadata", json!({"name": "p", "labels": 5})),
            ("/metadata", json!({"name": "p", "generation": "x", "annotations": {"a": 1}})),
            ("/spec/targetRefs", json!({"group": "", "kind": "Service", "name": "a"})),
            ("/spec/targetRefs/0/sectionName", json!(5)),
            ("/spec/targetSelectors/0/sectionName", json!(["x"])),
            ("/spec/targetSelectors/0/matchLabels", json!({"a": 1})),
            ("/spec/targetSelectors", json!({"kind": "Service", "matchLabels": {"a": "b"}})),
        ];
        for (at, value) in wrong {
            let mut document = whole.clone();
            let (parent, name) = at.rsplit_once('/').unwrap();
            document.pointer_mut(parent).unwrap()[name] = value;
            assert_eq!(targets(&document), (1, 1), "{kind} {at}");
        }
    }
}
