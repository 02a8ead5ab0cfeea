//! The stored form of an object with credentials where there is no key to seal them: what is needed to close its
//! requests, and no more.
//!
//! After a restart such an object is not known if it cannot be read. Without this form, a policy would no longer protect
//! its targets, and a broader route would get the requests of a route. It is never served instead of a broken version.

use std::sync::Arc;

use holdfast_store::StoredObject;
use holdfast_xds::credentials::is_credential;
use serde_json::Value;

use super::document::{carries_credentials, document, record};
use super::kgateway::policy::{Policy, Unread};
use super::{Body, Decoded, decode};
use crate::object::{Metadata, Object};

/// The field that marks the form. No version of an object has it.
const MARK: &str = "withoutCredentials";
/// The fields of a policy that the form has.
const OF_POLICY: [&str; 2] = ["targetRefs", "targetSelectors"];
/// The fields of a rule that the form has.
const OF_RULE: [&str; 2] = ["name", "matches"];
/// The fields of an HTTPProxy that the form has. Of the host it has the name, and of routes the conditions.
const OF_PROXY: [&str; 4] = ["virtualhost", "routes", "includes", "ingressClassName"];
/// The fields of a condition of an HTTPProxy that hold a value of a header or query parameter.
const OF_CONDITION: [&str; 5] = ["exact", "notexact", "contains", "notcontains", "regex"];
/// Why the object is closed.
const WHY: &str = "its last valid version holds credentials, which are not stored without --store-key-file";

/// Returns the form of a policy, route or HTTPProxy; `since` is when the object was proven good (seconds since 1970).
/// Returns `None` for other kinds.
pub fn without_credentials(object: &Object, since: i64) -> Option<StoredObject> {
    let mut document = document(object)?;
    let spec = document.get_mut("spec")?.as_object_mut()?;
    match &object.body {
        Body::TrafficPolicy(_) | Body::ListenerPolicy(_) => spec.retain(|field, _| OF_POLICY.contains(&field.as_str())),
        Body::HttpRoute(_) | Body::GrpcRoute(_) => {
            let rules = spec.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten();
            let rules = rules.filter_map(Value::as_object_mut);
            rules.for_each(|rule| rule.retain(|field, _| OF_RULE.contains(&field.as_str())));
        }
        Body::HttpProxy(_) => {
            spec.retain(|field, _| OF_PROXY.contains(&field.as_str()));
            let host = spec.get_mut("virtualhost").and_then(Value::as_object_mut);
            host.into_iter().for_each(|host| host.retain(|field, _| field == "fqdn"));
            let routes = spec.get_mut("routes").and_then(Value::as_array_mut).into_iter().flatten();
            let routes = routes.filter_map(Value::as_object_mut);
            routes.for_each(|route| route.retain(|field, _| field == "conditions"));
        }
        _ => return None,
    }
    without_values(document.get_mut("spec")?);
    // An annotation can hold the whole object as it was applied.
    document.get_mut("metadata")?.as_object_mut()?.remove("annotations");
    document.as_object_mut()?.insert(MARK.to_owned(), true.into());
    // The values of credentials in matches were replaced.
    let is_route = matches!(object.body, Body::HttpRoute(_) | Body::GrpcRoute(_));
    if !is_route && carries_credentials(&document) {
        return None;
    }
    record(object, since, &document, false)
}

/// Removes the values of headers and query parameters with credentials from matches of routes, and from conditions of
/// HTTPProxies: what remains matches any value.
fn without_values(document: &mut Value) {
    match document {
        Value::Object(fields) => {
            let text = |field: &str| fields.get(field).and_then(Value::as_str);
            let is_secret =
                |field: &&str| text("name").zip(text(field)).is_some_and(|(name, value)| is_credential(name, value));
            if is_secret(&"value") {
                fields.insert("type".to_owned(), "RegularExpression".into());
                fields.insert("value".to_owned(), ".*".into());
            } else if OF_CONDITION.iter().any(is_secret) {
                fields.retain(|field, _| field == "name");
                fields.insert("present".to_owned(), true.into());
            }
            fields.values_mut().for_each(without_values);
        }
        Value::Array(values) => values.iter_mut().for_each(without_values),
        _ => {}
    }
}

/// Returns whether a stored version is in this form.
pub fn is_closed(stored: &StoredObject) -> bool {
    // The last field, since the fields are in the order of their names.
    stored.payload.ends_with(format!(",\"{MARK}\":true}}").as_bytes())
}

/// Returns the closed object of a stored form: a policy that cannot be enforced, or a route or HTTPProxy without anything
/// that can be served. Returns `None` for every other stored version.
pub fn closed(stored: &StoredObject) -> Option<Object> {
    let mut document: Value = serde_json::from_slice(&stored.payload).ok()?;
    document.as_object_mut()?.remove(MARK)?;
    let Decoded::Object(object, _) = decode(document, None) else { return None };
    let mut object = *object;
    object.body = match &object.body {
        Body::TrafficPolicy(policy) => Body::TrafficPolicy(Arc::new(closed_policy(policy))),
        Body::ListenerPolicy(policy) => Body::ListenerPolicy(Arc::new(closed_policy(policy))),
        Body::HttpProxy(proxy) => Body::HttpProxy(Arc::new(proxy.closed(&WHY.into()))),
        body => body.closed(&WHY.into())?,
    };
    object.metadata.incarnation = Metadata::incarnation_of(&object.metadata.uid);
    Some(object)
}

fn closed_policy<T>(policy: &Policy<T>) -> Policy<T> {
    let unread = Unread { field: "spec".to_owned(), message: WHY.to_owned() };
    Policy { targets: policy.targets.clone(), spec: None, unread: vec![unread], targets_lost: false }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::apis::document;

    fn object(document: Value) -> Object {
        match decode(document, None) {
            Decoded::Object(object, faults) => {
                assert!(faults.is_empty(), "{faults:?}");
                *object
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_policy_with_credentials_leaves_its_targets() {
        let policy = object(json!({
            "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
            "metadata": {"name": "auth", "namespace": "shop", "annotations": {"applied": "bob:{SHA}secret"}},
            "spec": {
                "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "cart"}],
                "basicAuth": {"users": ["bob:{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE="]},
            },
        }));
        assert!(document::stored(&policy, 7).unwrap().sensitive);
        let stored = without_credentials(&policy, 7).unwrap();
        assert!(is_closed(&stored) && !is_closed(&document::stored(&policy, 7).unwrap()));
        let text = String::from_utf8(stored.payload.to_vec()).unwrap();
        assert!(!stored.sensitive && !text.contains("bob"), "{text}");
        assert!(document::restored(&stored).is_none(), "it is no version of the object");
        let closed = closed(&stored).unwrap();
        let (Body::TrafficPolicy(was), Body::TrafficPolicy(is)) = (&policy.body, &closed.body) else { panic!() };
        assert_eq!((&was.targets, is.spec.is_none(), is.unread.len()), (&is.targets, true, 1));
    }

    #[test]
    fn a_route_with_credentials_leaves_its_matches() {
        let header = |name: &str| json!([{"name": name, "value": "Basic c2VjcmV0"}]);
        let route = |matches: Value| {
            object(json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": {"name": "cart", "namespace": "shop"},
                "spec": {"hostnames": ["shop.example.com"], "rules": [{
                    "matches": matches,
                    "filters": [{"type": "RequestHeaderModifier",
                                 "requestHeaderModifier": {"set": header("authorization")}}],
                }]},
            }))
        };
        let stored = without_credentials(&route(json!([{"path": {"value": "/cart"}}])), 7).unwrap();
        let text = String::from_utf8(stored.payload.to_vec()).unwrap();
        assert!(text.contains("/cart") && text.contains("shop.example.com") && !text.contains("Basic"), "{text}");
        assert!(matches!(closed(&stored).unwrap().body, Body::HttpRoute(_)));
        let stored = without_credentials(&route(json!([{"headers": header("authorization")}])), 7).unwrap();
        let text = String::from_utf8(stored.payload.to_vec()).unwrap();
        assert!(text.contains("authorization") && text.contains(".*") && !text.contains("Basic"), "{text}");
        assert!(is_closed(&stored) && closed(&stored).is_some());
    }

    #[test]
    fn an_httpproxy_with_credentials_leaves_its_host() {
        let proxy = object(json!({
            "apiVersion": "projectcontour.io/v1", "kind": "HTTPProxy", "metadata": {"name": "cart", "namespace": "shop"},
            "spec": {"virtualhost": {"fqdn": "shop.example.com"}, "routes": [{
                "conditions": [{"prefix": "/cart"}, {"header": {"name": "x-api-key", "exact": "c2VjcmV0"}}],
                "services": [{"name": "cart", "port": 80}],
                "requestHeadersPolicy": {"set": [{"name": "authorization", "value": "Basic c2VjcmV0"}]},
            }]},
        }));
        let stored = without_credentials(&proxy, 7).unwrap();
        let text = String::from_utf8(stored.payload.to_vec()).unwrap();
        assert!(text.contains("shop.example.com") && text.contains("/cart") && !text.contains("c2VjcmV0"), "{text}");
        let Body::HttpProxy(closed) = closed(&stored).unwrap().body else { panic!() };
        let host = closed.virtual_host.as_ref().unwrap();
        assert!(&*host.fqdn == "shop.example.com" && host.written.is_none());
    }
}
