//! Documents of objects for people: what Holdfast read of an object, without credentials.
//!
//! A part that did not decode is a note. No value of a Secret appears: a certificate is described by what its clients
//! see, and any other value is left out.

use holdfast_check::certificate::summaries;
use holdfast_xds::credentials::{is_credential_header, is_credential_value};
use serde_json::{Map, Value};

use super::core::secret::Secret;
use super::document::{Undecoded, written};
use super::{Body, scheme};
use crate::object::Object;

/// The replacement of a credential, as in decoded resources of Envoy.
const REDACTED: &str = "[redacted]";

/// The fields with the value of a header, parameter or entry, in every API.
const VALUE_FIELDS: [&str; 9] =
    ["value", "rawValue", "exact", "prefix", "suffix", "contains", "regex", "notexact", "notcontains"];

/// Returns an object as a document for people: its kind, name and content. Returns `None` for kinds of which Holdfast
/// keeps no document.
pub fn shown(object: &Object) -> Option<Value> {
    if let Body::Secret(secret) = &object.body {
        return Some(secret_document(object, secret));
    }
    let mut document = written(object, Undecoded::Noted)?;
    let fields = document.as_object_mut()?;
    fields.insert("metadata".into(), identity(object));
    if let Some(Value::Object(auth)) = fields.get_mut("spec").and_then(|spec| spec.get_mut("basicAuth")) {
        auth.entry("users").and_modify(|users| *users = REDACTED.into());
    }
    redact(&mut document);
    leave_out_empty(&mut document);
    Some(document)
}

fn identity(object: &Object) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".into(), (*object.key.name).into());
    if !object.key.namespace.is_empty() {
        metadata.insert("namespace".into(), (*object.key.namespace).into());
    }
    let own = object.own_annotations().map(|(name, value)| (name.clone(), Value::String(value.clone())));
    let own: Map<String, Value> = own.collect();
    if !own.is_empty() {
        metadata.insert("annotations".into(), own.into());
    }
    metadata.into()
}

fn secret_document(object: &Object, secret: &Secret) -> Value {
    let described = |bytes: &[u8]| match summaries(bytes) {
        certificates if certificates.is_empty() => REDACTED.into(),
        certificates => certificates.iter().map(|certificate| Value::String(certificate.to_string())).collect(),
    };
    let data: Map<String, Value> = secret.data.iter().map(|(name, bytes)| (name.clone(), described(bytes))).collect();
    let version = scheme::find(&object.key.group, &object.key.kind).and_then(|kind| kind.versions.first());
    let mut document = Map::new();
    document.insert("apiVersion".into(), version.copied().unwrap_or_default().into());
    document.insert("kind".into(), (*object.key.kind).into());
    document.insert("metadata".into(), identity(object));
    document.insert("type".into(), (*secret.kind).into());
    document.insert("data".into(), data.into());
    document.into()
}

/// Replaces texts that are, or may be, credentials: the values of a header, parameter or entry with a name of a
/// credential; texts that begin like the value of a credential; and the literals of an expression that names such a
/// header. References to objects with such a name stay.
pub fn redact(document: &mut Value) {
    match document {
        Value::Object(fields) => {
            let names = ["name", "key", "headerName"].into_iter().filter_map(|field| fields.get(field));
            let is_named = names.filter_map(Value::as_str).any(is_credential_header);
            for (name, value) in fields.iter_mut() {
                let is_value = is_named && VALUE_FIELDS.contains(&&**name);
                match value {
                    Value::String(_) if is_value || is_credential_header(name) => *value = REDACTED.into(),
                    _ => redact(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(redact),
        Value::String(text) if is_credential_value(text) => REDACTED.clone_into(text),
        Value::String(text) => {
            if let Some(redacted) = without_literals(text) {
                *text = redacted;
            }
        }
        _ => {}
    }
}

/// Returns an expression that names a header with a credential without its other literals.
fn without_literals(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split(['\'', '"']).collect();
    let literals = || parts.iter().skip(1).step_by(2);
    if !literals().any(|literal| is_credential_header(literal)) {
        return None;
    }
    let shown = parts.iter().enumerate().map(|(index, part)| match index % 2 == 1 && !is_credential_header(part) {
        true => REDACTED,
        false => part,
    });
    Some(shown.collect::<Vec<_>>().join("'"))
}

/// Removes empty lists and mappings below the spec, which decoding adds. The entries of a list keep their positions.
fn leave_out_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let is_empty = |value: &Value| matches!(value, Value::Array(list) if list.is_empty());
            fields.retain(|_, value| !is_empty(value));
            fields.values_mut().for_each(leave_out_empty);
        }
        Value::Array(entries) => entries.iter_mut().for_each(leave_out_empty),
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::apis::{Decoded, decode};

    fn document(manifest: Value) -> Value {
        match decode(manifest, None) {
            Decoded::Object(object, _) => shown(&object).unwrap(),
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn credentials_are_left_out_and_unreadable_rules_are_noted() {
        let route = document(json!({
            "kind": "HTTPRoute", "apiVersion": "gateway.networking.k8s.io/v1", "metadata": {"name": "a", "uid": "u"},
            "spec": {"rules": [
                {"matches": 1},
                {"filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [
                    {"name": "authorization", "value": "Bearer x"}, {"name": "x-env", "value": "test"},
                ]}}]},
            ]},
        }));
        assert_eq!(route["metadata"], json!({"name": "a", "namespace": "default"}));
        let rules = &route["spec"]["rules"];
        assert!(rules[0].as_str().unwrap().starts_with("[not readable: "), "{rules}");
        let set = &rules[1]["filters"][0]["requestHeaderModifier"]["set"];
        assert_eq!(set, &json!([{"name": "authorization", "value": "[redacted]"}, {"name": "x-env", "value": "test"}]));
    }

    #[test]
    fn credentials_are_found_in_every_form() {
        let mut document = json!({
            "conditions": [{"header": {"name": "x-api-key", "contains": "hunter2"}}],
            "context": {"api-key": "hunter2", "env": "test"},
            "metadata": [{"key": "authorization", "value": "hunter2"}],
            "any": ["Bearer hunter2"],
            "rule": "request.headers['authorization'] == 'hunter2' && request.method == 'GET'",
            "other": "request.headers['x-env'] == 'test'",
            "backendRefs": [{"name": "token", "namespace": "auth", "kind": "Service"}],
        });
        redact(&mut document);
        assert!(!document.to_string().contains("hunter2"), "{document}");
        assert_eq!(document["context"]["env"], "test");
        assert_eq!(document["conditions"][0]["header"]["name"], "x-api-key");
        assert_eq!(document["other"], "request.headers['x-env'] == 'test'");
        assert_eq!(document["backendRefs"], json!([{"name": "token", "namespace": "auth", "kind": "Service"}]));
    }

    #[test]
    fn no_value_of_a_secret_appears() {
        let secret = document(json!({
            "kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s", "namespace": "n"},
            "stringData": {"password": "hunter2", "tls.crt": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
        }));
        assert_eq!(secret["data"], json!({"password": "[redacted]", "tls.crt": "[redacted]"}));
        assert_eq!((&secret["kind"], &secret["apiVersion"]), (&json!("Secret"), &json!("v1")));
    }
}
