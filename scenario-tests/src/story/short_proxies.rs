//! Short forms of HTTPProxies and related objects.

use serde_json::{Map, Value, json};

use super::short::object;

const API: &str = "projectcontour.io/v1";

/// Expands an HTTPProxy: a root where it has a `host`.
pub(super) fn proxy(name: &str, document: &Value) -> Value {
    let mut spec = Map::new();
    if let Some(fqdn) = document.get("host") {
        let mut host = Map::from_iter([("fqdn".to_owned(), fqdn.clone())]);
        if let Some(secret) = document.get("tls") {
            host.insert("tls".into(), json!({ "secretName": secret }));
        }
        host.extend(guards(document));
        if let Some(more) = document.get("virtualhost").and_then(Value::as_object) {
            host.extend(more.clone());
        }
        spec.insert("virtualhost".into(), host.into());
    }
    let includes = document.get("includes").and_then(Value::as_object).into_iter().flatten();
    let includes: Vec<Value> = includes.map(|(name, prefix)| include(name, prefix)).collect();
    if !includes.is_empty() {
        spec.insert("includes".into(), includes.into());
    }
    let routes = document.get("routes").and_then(Value::as_array).cloned();
    let alone = ["to", "answer"].iter().any(|field| document.get(*field).is_some()).then(|| vec![document.clone()]);
    let routes: Vec<Value> = routes.or(alone).unwrap_or_default().iter().map(route).collect();
    if !routes.is_empty() {
        spec.insert("routes".into(), routes.into());
    }
    if let Some(more) = document.get("spec").and_then(Value::as_object) {
        spec.extend(more.clone());
    }
    object(API, "HTTPProxy", name, document, spec.into())
}

/// Expands a TLSCertificateDelegation.
pub(super) fn delegation(name: &str, document: &Value) -> Value {
    let secret = name.split_once('/').map_or(name, |(_, name)| name);
    let to: Vec<Value> = document.get("to").cloned().into_iter().collect();
    let spec = json!({ "delegations": [{ "secretName": secret, "targetNamespaces": to }] });
    object(API, "TLSCertificateDelegation", name, document, spec)
}

/// Expands an include: `name: /prefix`, or `namespace/name: /prefix`, or `name: {…}` with further fields of the
/// include.
fn include(name: &str, prefix: &Value) -> Value {
    let mut include = Map::new();
    match name.split_once('/') {
        Some((namespace, name)) => {
            include.insert("namespace".into(), namespace.into());
            include.insert("name".into(), name.into());
        }
        None => drop(include.insert("name".into(), name.into())),
    }
    match prefix {
        Value::Object(more) => include.extend(more.clone()),
        prefix => drop(include.insert("conditions".into(), json!([{ "prefix": prefix }]))),
    }
    include.into()
}

fn route(entry: &Value) -> Value {
    let mut conditions = Vec::new();
    for (field, kind) in [("path", "prefix"), ("exact", "exact"), ("regex", "regex")] {
        conditions.extend(entry.get(field).map(|value| json!({ kind: value })));
    }
    if let Some(headers) = entry.get("headers").and_then(Value::as_object) {
        let each = headers.iter().map(|(name, value)| json!({ "header": { "name": name, "exact": value } }));
        conditions.extend(each);
    }
    let mut route = Map::new();
    if !conditions.is_empty() {
        route.insert("conditions".into(), conditions.into());
    }
    if let Some(add) = entry.get("add").and_then(Value::as_object) {
        let set: Vec<Value> = add.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        // A policy of response headers: a policy of request headers would protect, so that versions without it could
        // not be served.
        route.insert("responseHeadersPolicy".into(), json!({ "set": set }));
    }
    if let Some(status) = entry.get("answer") {
        route.insert("directResponsePolicy".into(), json!({ "statusCode": status }));
    }
    if entry.get("host").is_none() {
        route.extend(guards(entry));
    }
    let services = match entry.get("to") {
        Some(Value::Array(names)) => names.clone(),
        Some(name) => vec![name.clone()],
        None => vec![],
    };
    if !services.is_empty() {
        let each = services.iter().map(|name| json!({ "name": name, "port": 80 }));
        route.insert("services".into(), each.collect());
    }
    if let Some(more) = entry.get("more").and_then(Value::as_object) {
        route.extend(more.clone());
    }
    route.into()
}

fn guards(entry: &Value) -> Map<String, Value> {
    let mut guards = Map::new();
    for (field, policy) in [("allow", "ipAllowPolicy"), ("deny", "ipDenyPolicy")] {
        if let Some(cidr) = entry.get(field) {
            guards.insert(policy.into(), json!([{ "source": "Peer", "cidr": cidr }]));
        }
    }
    guards
}
