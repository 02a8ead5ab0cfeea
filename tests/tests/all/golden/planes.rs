//! Desired data planes: the objects of every Gateway, abridged. Hashes are left out.

use holdfast_engine::engine::Engine;
use holdfast_envoy::bootstrap::{Bootstrap, MAX_CONNECTIONS, MAX_HEAP_BYTES, ServerAddress};
use holdfast_translate::provision::{self, APPLIED_ANNOTATION, Operator};
use holdfast_xds::connection::Protocol;
use serde_json::{Map, Value, json};

use super::case::GoldenCase;

/// Returns the data planes of all Gateways.
pub(super) fn of(case: &GoldenCase, engine: &Engine) -> Value {
    let host = if case.show.contains("by-address") { "2001:db8::1" } else { "holdfast.holdfast-system.svc" };
    let operator = Operator {
        image: "envoy:1.40.0".into(),
        drain_image: None,
        token_audience: "holdfast.dev/xds".into(),
        authorities: case.show.contains("trusted").then(|| "(PEM)".into()),
        server_name: host.into(),
    };
    let planes = engine.data_planes().into_iter().map(|plane| {
        let bootstrap = Bootstrap {
            gateway: plane.gateway.namespaced_name(),
            node_id: "none".into(),
            xds: ServerAddress::Tcp(host.into(), 18000),
            credentials: None,
            admin: None,
            mode: Protocol::Delta,
            max_heap_bytes: MAX_HEAP_BYTES,
            max_connections: MAX_CONNECTIONS,
        };
        let objects = provision::desired(&plane, &operator, &bootstrap.to_json()).into_iter();
        let objects: Map<String, Value> = objects.map(|object| shown(case, object)).collect();
        (plane.gateway.namespaced_name(), Value::Object(objects))
    });
    Value::Object(planes.collect())
}

/// Returns an object: in full if the case shows `planes`, otherwise the ports of a Service or the replicas of a
/// Deployment.
fn shown(case: &GoldenCase, object: Value) -> (String, Value) {
    let (title, object) = whole(case, object);
    if case.show.contains("planes") {
        return (title, object);
    }
    let at = |at: &str| object.pointer(at).cloned().unwrap_or_default();
    let short = match title.split(' ').nth(1) {
        Some("Service") => at("/spec/ports"),
        Some("Deployment") => json!({ "replicas": at("/spec/replicas") }),
        _ => json!({}),
    };
    (title, short)
}

fn whole(case: &GoldenCase, mut object: Value) -> (String, Value) {
    let text = |object: &Value, at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let title = format!(
        "{} {} {}/{}",
        text(&object, "/apiVersion"),
        text(&object, "/kind"),
        text(&object, "/metadata/namespace"),
        text(&object, "/metadata/name")
    );
    let fields = object.as_object_mut().unwrap();
    fields.retain(|name, _| !["apiVersion", "kind"].contains(&name.as_str()));
    let metadata = fields.get_mut("metadata").and_then(Value::as_object_mut).unwrap();
    metadata.retain(|name, _| !["name", "namespace"].contains(&name.as_str()));
    let applied = metadata.get_mut("annotations").and_then(Value::as_object_mut).unwrap().remove(APPLIED_ANNOTATION);
    assert_eq!(applied.and_then(|hash| hash.as_str().map(str::len)), Some(16), "{title}");
    let owner = metadata.get_mut("ownerReferences").and_then(|owners| owners.get_mut(0)).unwrap();
    *owner = json!(format!("{} {} controller", text(owner, "/kind"), text(owner, "/name")));
    if let Some(data) = object.get_mut("data").and_then(|data| data.get_mut("bootstrap.json")) {
        let whole = case.show.contains("bootstrap");
        *data = if whole { serde_json::from_str(data.as_str().unwrap()).unwrap() } else { json!("(bootstrap)") };
    }
    let bootstrap = "/spec/template/metadata/annotations/holdfast.dev~1bootstrap";
    if let Some(hash) = object.pointer_mut(bootstrap) {
        *hash = json!("(hash)");
    }
    (title, object)
}
