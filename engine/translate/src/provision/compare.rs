//! Comparison of existing objects with the desired objects.

use holdfast_api::apis::kinds;
use serde_json::Value;

use super::OWNED_LABEL;

/// Checks that an object has all desired fields. Fields that other controllers added are ignored.
///
/// The order of list entries is ignored: the API server orders lists by keys.
pub fn has(object: &Value, desired: &Value) -> bool {
    match (object, desired) {
        (Value::Object(object), Value::Object(desired)) => desired
            .iter()
            .all(|(name, desired)| object.get(name).is_some_and(|found| has(found, desired)) || is_nothing(desired)),
        (Value::Array(object), Value::Array(desired)) => {
            desired.iter().all(|desired| object.iter().any(|found| has(found, desired)))
        }
        (object, desired) => object == desired,
    }
}

/// Checks that a value is empty: the API server omits empty maps and lists.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        _ => false,
    }
}

/// Checks that Holdfast created the object for the Gateway with this UID.
pub fn is_ours(object: &Value, uid: &str) -> bool {
    owner(object).is_some_and(|owner| owner == uid)
}

/// Returns the UID of the Gateway that an object was created for.
pub fn owner(object: &Value) -> Option<&str> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    let text = |owner: &Value, name: &str| owner.get(name).and_then(Value::as_str).map(str::to_owned);
    let is_gateway = |owner: &&Value| {
        text(owner, "kind").as_deref() == Some(kinds::GATEWAY)
            && owner.get("controller").and_then(Value::as_bool) == Some(true)
    };
    owners.iter().find(is_gateway).and_then(|owner| owner.get("uid")).and_then(Value::as_str)
}

/// Checks that the object has the label of Holdfast's objects.
pub fn has_label(object: &Value) -> bool {
    let (name, value) = OWNED_LABEL;
    let labels = object.pointer("/metadata/labels").and_then(|labels| labels.get(name));
    labels.and_then(Value::as_str) == Some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_add_is_theirs_and_what_they_change_is_not() {
        let desired = json!({ "spec": { "replicas": 2, "ports": [{ "port": 80 }, { "port": 443 }], "labels": {} } });
        let more =
            json!({ "spec": { "replicas": 2, "ports": [{ "port": 443, "nodePort": 3 }, { "port": 80 }], "x": 1 } });
        let fewer = json!({ "spec": { "replicas": 2, "ports": [{ "port": 80 }] } });
        let other = json!({ "spec": { "replicas": 3, "ports": [{ "port": 80 }, { "port": 443 }] } });
        assert!(has(&more, &desired));
        assert!(!has(&fewer, &desired) && !has(&other, &desired));
    }

    #[test]
    fn an_object_is_ours_by_its_owner() {
        let owned = |kind: &str, controller: bool| json!({ "metadata": { "ownerReferences": [{ "kind": kind, "uid": "u", "controller": controller }] } });
        assert!(is_ours(&owned("Gateway", true), "u"));
        assert!(!is_ours(&owned("Gateway", true), "other") && !is_ours(&owned("Gateway", false), "u"));
        assert!(!is_ours(&owned("Deployment", true), "u") && !is_ours(&json!({}), "u"));
    }
}
