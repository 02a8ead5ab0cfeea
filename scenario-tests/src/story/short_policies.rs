//! Short forms of policies, of the objects that they use, and of rules that refer to them.

use serde_json::{Map, Value, json};

use super::short::object;

const API: &str = "gateway.kgateway.dev/v1alpha1";

/// Expands a policy: `{policy: infra/guard, on: Gateway/public#web, says: {…}}`. A policy with the name prefix `guard`
/// adds a header to the requests that it guards, so that its presence can be checked at every Envoy.
/// `{listenerPolicy: infra/edge, on: Gateway/public, says: {…}}` works in the same way, without the header.
pub fn policy(kind: &str, name: &str, document: &Value) -> Value {
    let targets: Vec<Value> = match document.get("on") {
        Some(Value::Array(values)) => values.clone(),
        Some(value) => vec![value.clone()],
        None => vec![],
    };
    let target = |text: &str| {
        let (object, section) = text.split_once('#').map_or((text, None), |(object, part)| (object, Some(part)));
        let (kind, name) = object.split_once('/').unwrap_or(("HTTPRoute", object));
        let mut target = json!({ "group": "gateway.networking.k8s.io", "kind": kind, "name": name });
        if let (Some(fields), Some(section)) = (target.as_object_mut(), section) {
            fields.insert("sectionName".into(), section.into());
        }
        target
    };
    let targets: Vec<Value> = targets.iter().filter_map(Value::as_str).map(target).collect();
    let own = name.rsplit('/').next().unwrap_or(name);
    let mut spec = Map::new();
    if own.starts_with("guard") && kind == "TrafficPolicy" {
        let mark = document.get("mark").and_then(Value::as_str).unwrap_or("good");
        let header = json!({ "name": "x-guard", "value": format!("guarded-by-{own} {mark}") });
        spec.insert("headerModifiers".into(), json!({ "request": { "set": [header] } }));
    }
    spec.extend(document.get("says").and_then(Value::as_object).cloned().unwrap_or_default());
    if !targets.is_empty() {
        spec.insert("targetRefs".into(), targets.into());
    }
    object(API, kind, name, document, Value::Object(spec))
}

/// Expands any other object of the group: `{extension: infra/auth, says: {…}}`, `{directResponse: shop/no, says: {…}}`.
pub fn other(kind: &str, name: &str, document: &Value) -> Value {
    object(API, kind, name, document, document.get("says").cloned().unwrap_or_default())
}

/// Returns the filters of a rule that refer to objects of the group: `extensions: [TrafficPolicy/guard]`.
pub fn extensions(entry: &Value) -> Vec<Value> {
    let names = entry.get("extensions").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let one = |text: &str| {
        let (kind, name) = text.split_once('/').unwrap_or(("TrafficPolicy", text));
        let reference = json!({ "group": "gateway.kgateway.dev", "kind": kind, "name": name });
        json!({ "type": "ExtensionRef", "extensionRef": reference })
    };
    names.map(one).collect()
}
