//! Conversion of an object back to a JSON document, the opposite of decoding: for the store of last valid versions.
//!
//! The document has only the fields that were kept of an object, as they would be decoded again; it does not have the
//! source of the object. This module decides nothing: the caller knows whether the object was proven good, and had no
//! faults when it was decoded.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gateway_api::gatewayclasses::GatewayClassParametersRef;
use gateway_api::gateways::{GatewayAddresses, GatewayAllowedListeners, GatewayInfrastructure};
use holdfast_store::StoredObject;
use holdfast_store::record::{PAYLOAD_BYTES_MAX, TEXT_BYTES_MAX};
use holdfast_xds::credentials::is_credential;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::contour::http_proxy::{HttpProxy, ProxyEntry};
use super::core::secret::Secret;
use super::core::service::{Port, Service};
use super::gateway::class::GatewayClass;
use super::gateway::default_scope::ALL;
use super::gateway::frontend::GatewayTlsSpec;
use super::gateway::gateway::{Gateway, ListenerEntry};
use super::gateway::listener_set::{ListenerSet, SetParent};
use super::gateway::references::ParentRef;
use super::gateway::route::{GatewayRoute, RuleEntry};
use super::kgateway::policy::{Policy, Unread};
use super::kgateway::targets::{TargetRef, TargetSelector};
use super::{Body, Decoded, decode, scheme};
use crate::object::{Metadata, Object};

/// Returns the object as a document that decodes to an equal object.
///
/// Returns `None` for kinds without kept versions, and for objects with a rule or listener that did not decode.
pub fn document(object: &Object) -> Option<Value> {
    written(object, Undecoded::Fails)
}

/// Returns whether versions of objects of this kind are kept: grants and endpoints are always read from the current
/// objects.
pub fn is_kept(body: &Body) -> bool {
    !matches!(
        body,
        Body::ReferenceGrant(_)
            | Body::CertificateDelegation(_)
            | Body::ExtensionService(_)
            | Body::EndpointSlice(_)
            | Body::ConfigMap(_)
            | Body::Namespace
    )
}

/// What becomes of the parts of an object that did not decode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Undecoded {
    /// The object has no document.
    Fails,
    /// A note takes the place of the part.
    Noted,
}

impl Undecoded {
    fn note(self, why: &str) -> Option<Value> {
        (self == Self::Noted).then(|| format!("[not readable: {why}]").into())
    }
}

/// Returns the object as a document.
pub(super) fn written(object: &Object, undecoded: Undecoded) -> Option<Value> {
    let content = match &object.body {
        Body::Gateway(gateway) => vec![("spec", gateway_spec(gateway, undecoded)?)],
        Body::ListenerSet(set) => vec![("spec", set_spec(set, undecoded)?)],
        Body::HttpRoute(route) => vec![("spec", route_spec(route, undecoded)?)],
        Body::GrpcRoute(route) => vec![("spec", route_spec(route, undecoded)?)],
        Body::StreamRoute(route) => vec![("spec", route_spec(route, undecoded)?)],
        Body::HttpProxy(proxy) => vec![("spec", proxy_spec(proxy, undecoded)?)],
        Body::Service(service) => vec![("spec", service_spec(service)?)],
        Body::Secret(secret) => vec![("type", value(&secret.kind)?), ("data", secret_data(secret)?)],
        Body::TrafficPolicy(policy) => vec![("spec", policy_spec(policy, undecoded)?)],
        Body::ListenerPolicy(policy) => vec![("spec", policy_spec(policy, undecoded)?)],
        Body::BackendConfigPolicy(policy) => vec![("spec", policy_spec(policy, undecoded)?)],
        Body::BackendTlsPolicy(policy) => vec![("spec", policy_spec(policy, undecoded)?)],
        Body::Backend(backend) => vec![("spec", whole_spec(&**backend, &backend.unread, undecoded)?)],
        Body::GatewayExtension(extension) => {
            vec![("spec", whole_spec(&**extension, &extension.unread, undecoded)?)]
        }
        Body::DirectResponse(response) => vec![("spec", whole_spec(&**response, &response.unread, undecoded)?)],
        Body::GatewayClass(class) => vec![("spec", class_spec(class)?)],
        // As in `is_kept`.
        Body::ReferenceGrant(_)
        | Body::CertificateDelegation(_)
        | Body::ExtensionService(_)
        | Body::EndpointSlice(_)
        | Body::ConfigMap(_)
        | Body::Namespace => return None,
    };
    let kind = scheme::find(&object.key.group, &object.key.kind)?;
    let version = kind.versions.first()?;
    let api_version = if kind.group.is_empty() { (*version).to_owned() } else { format!("{}/{version}", kind.group) };
    let identity = [("apiVersion", api_version.into()), ("kind", kind.kind.into()), ("metadata", metadata(object)?)];
    let fields = identity.into_iter().chain(content).map(|(name, value)| (name.to_owned(), value));
    let mut document = Value::Object(fields.collect());
    leave_out_nulls(&mut document);
    // Has no effect unless some dependency makes serde_json keep the order of insertion.
    document.sort_all_objects();
    Some(document)
}

/// Returns the object as it is stored; `since` is when the object was proven good (seconds since 1970).
///
/// Returns `None` where [`document`] does, and where the store would refuse the object: one record over a limit would
/// cost the other records of its batch.
pub fn stored(object: &Object, since: i64) -> Option<StoredObject> {
    let document = document(object)?;
    record(object, since, &document, is_sensitive(&object.body, &document))
}

/// Returns the record of an object with this document; `None` if the store would refuse it.
pub(super) fn record(object: &Object, since: i64, document: &Value, sensitive: bool) -> Option<StoredObject> {
    let payload = serde_json::to_vec(document).ok()?;
    if payload.len() > PAYLOAD_BYTES_MAX || object.metadata.uid.len() > TEXT_BYTES_MAX {
        return None;
    }
    Some(StoredObject {
        key: object.key.clone(),
        uid: object.metadata.uid.clone(),
        generation: object.metadata.generation,
        since,
        sensitive,
        payload: payload.into(),
    })
}

/// Returns the object that was stored.
///
/// Returns `None` where the result is uncertain: the payload does not decode without an error, or the decoded object
/// would be stored differently. So a field that only another version of Holdfast knows is never dropped in silence.
pub fn restored(stored: &StoredObject) -> Option<Object> {
    let document = serde_json::from_slice(&stored.payload).ok()?;
    let Decoded::Object(object, faults) = decode(document, None) else { return None };
    let same = || self::stored(&object, stored.since).is_some_and(|again| again == *stored);
    if faults.iter().any(|fault| fault.is_error()) || !same() {
        return None;
    }
    let mut object = *object;
    // The store keeps the UID; the incarnation is derived from the UID.
    object.metadata.incarnation = Metadata::incarnation_of(&object.metadata.uid);
    Some(object)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMetadata<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    generation: i64,
    creation_timestamp: Option<String>,
    labels: &'a BTreeMap<String, String>,
    annotations: &'a BTreeMap<String, String>,
}

fn metadata(object: &Object) -> Option<Value> {
    let Metadata { uid, generation, created, incarnation: _, labels, annotations } = &object.metadata;
    let creation_timestamp = match created {
        Some(seconds) => Some(Timestamp::from_second(*seconds).ok()?.to_string()),
        None => None,
    };
    let (name, namespace) = (&object.key.name, &object.key.namespace);
    let generation = *generation;
    value(WrittenMetadata { name, namespace, uid, generation, creation_timestamp, labels, annotations })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClassSpec<'a> {
    controller_name: &'a str,
    parameters_ref: Option<&'a GatewayClassParametersRef>,
}

fn class_spec(class: &GatewayClass) -> Option<Value> {
    let GatewayClass { controller_name, parameters } = class;
    value(ClassSpec { controller_name, parameters_ref: parameters.as_ref() })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GatewaySpec<'a> {
    gateway_class_name: &'a str,
    listeners: Vec<Value>,
    addresses: &'a [GatewayAddresses],
    tls: Option<WrittenTls>,
    infrastructure: Option<&'a GatewayInfrastructure>,
    allowed_listeners: Option<&'a GatewayAllowedListeners>,
    default_scope: Option<Value>,
}

fn gateway_spec(gateway: &Gateway, undecoded: Undecoded) -> Option<Value> {
    let Gateway { class, listeners, addresses, tls, infrastructure, allowed_listeners, is_default, is_scope_lost } =
        gateway;
    let default_scope = match (is_scope_lost, is_default) {
        (true, _) => Some(undecoded.note("must be All or None")?),
        (false, true) => Some(ALL.into()),
        (false, false) => None,
    };
    value(GatewaySpec {
        gateway_class_name: class,
        listeners: whole_listeners(listeners, undecoded)?,
        addresses,
        tls: written_tls(tls, undecoded)?,
        infrastructure: infrastructure.as_ref(),
        allowed_listeners: allowed_listeners.as_ref(),
        default_scope,
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenTls {
    frontend: Option<Value>,
    backend: Option<Value>,
}

/// Returns `spec.tls` of a Gateway, if it is written; `None` where a part of it did not decode.
fn written_tls(tls: &GatewayTlsSpec, undecoded: Undecoded) -> Option<Option<WrittenTls>> {
    let GatewayTlsSpec { frontend, backend } = tls;
    let frontend = match frontend {
        None => None,
        Some(entry) => Some(whole(entry.as_deref(), undecoded)?),
    };
    let backend = match backend {
        None => None,
        Some(entry) => Some(whole(entry.as_ref(), undecoded)?),
    };
    let is_written = frontend.is_some() || backend.is_some();
    Some(is_written.then_some(WrittenTls { frontend, backend }))
}

/// Returns a part of an object that decodes as a whole or not at all.
fn whole(part: Option<&impl Serialize>, undecoded: Undecoded) -> Option<Value> {
    part.map_or_else(|| undecoded.note("its type is wrong"), value)
}

fn whole_listeners(listeners: &[ListenerEntry], undecoded: Undecoded) -> Option<Vec<Value>> {
    let written = |entry: &ListenerEntry| match &entry.written {
        Some(listener) if entry.whole => value(listener),
        _ => undecoded.note(&entry.name),
    };
    listeners.iter().map(written).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SetSpec<'a> {
    parent_ref: &'a SetParent,
    listeners: Vec<Value>,
}

fn set_spec(set: &ListenerSet, undecoded: Undecoded) -> Option<Value> {
    let ListenerSet { parent, listeners } = set;
    value(SetSpec { parent_ref: parent, listeners: whole_listeners(listeners, undecoded)? })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RouteSpec<'a> {
    parent_refs: &'a [ParentRef],
    use_default_gateways: Option<&'static str>,
    hostnames: &'a [Arc<str>],
    rules: Vec<Value>,
}

fn route_spec<R: Serialize>(route: &GatewayRoute<R>, undecoded: Undecoded) -> Option<Value> {
    let GatewayRoute { parents, uses_default_gateways, hostnames, rules } = route;
    let rules = rules.iter().map(|entry| match entry {
        RuleEntry::Decoded(rule) => value(rule),
        RuleEntry::Broken { why, .. } => undecoded.note(why),
    });
    value(RouteSpec {
        parent_refs: parents,
        use_default_gateways: uses_default_gateways.then_some(ALL),
        hostnames,
        rules: rules.collect::<Option<_>>()?,
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProxySpec<'a> {
    virtualhost: Option<Value>,
    routes: Vec<Value>,
    includes: Vec<Value>,
    tcpproxy: Option<Value>,
    ingress_class_name: Option<&'a str>,
}

fn proxy_spec(proxy: &HttpProxy, undecoded: Undecoded) -> Option<Value> {
    fn entries<T: Serialize>(entries: &[ProxyEntry<T>], undecoded: Undecoded) -> Option<Vec<Value>> {
        let written = |entry: &ProxyEntry<T>| match entry {
            ProxyEntry::Decoded(entry) => value(entry),
            ProxyEntry::Broken { why, .. } => undecoded.note(why),
        };
        entries.iter().map(written).collect()
    }
    let HttpProxy { virtual_host, routes, includes, tcp_proxy, ingress_class_name } = proxy;
    value(ProxySpec {
        virtualhost: match virtual_host {
            None => None,
            Some(host) => Some(whole(host.written.as_ref(), undecoded)?),
        },
        routes: entries(routes, undecoded)?,
        includes: entries(includes, undecoded)?,
        tcpproxy: match tcp_proxy {
            None => None,
            Some(entry) => Some(whole(entry.as_ref(), undecoded)?),
        },
        ingress_class_name: ingress_class_name.as_deref(),
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PolicySpec<'a, T> {
    target_refs: Vec<&'a TargetRef>,
    target_selectors: Vec<&'a TargetSelector>,
    #[serde(flatten)]
    spec: Option<&'a T>,
}

fn policy_spec(policy: &Policy<impl Serialize>, undecoded: Undecoded) -> Option<Value> {
    let Policy { targets, spec, unread, targets_lost: _ } = policy;
    // A target that is left out of the list would shift the index of the targets after it.
    let whole = |places: &mut dyn Iterator<Item = usize>| places.enumerate().all(|(index, place)| index == place);
    let is_whole = unread.is_empty()
        && spec.is_some()
        && whole(&mut targets.references.iter().map(|(place, _)| *place))
        && whole(&mut targets.selectors.iter().map(|(place, _)| *place));
    if !is_whole {
        return undecoded.note("a part of it has an error");
    }
    value(PolicySpec {
        target_refs: targets.references.iter().map(|(_, target)| target).collect(),
        target_selectors: targets.selectors.iter().map(|(_, target)| target).collect(),
        spec: spec.as_ref(),
    })
}

/// Returns whether an object holds credentials, so that it is stored only with a key.
pub fn has_credentials(object: &Object) -> bool {
    written(object, Undecoded::Noted).is_some_and(|document| is_sensitive(&object.body, &document))
}

/// Returns whether an object holds secret data. `document` is the object as [`document`] returns it.
fn is_sensitive(body: &Body, document: &Value) -> bool {
    match body {
        Body::Secret(_) => true,
        Body::TrafficPolicy(policy) => {
            let auth = policy.spec.as_ref().and_then(|spec| spec.basic_auth.as_ref());
            auth.is_some_and(|auth| auth.users.is_some()) || carries_credentials(document)
        }
        _ => carries_credentials(document),
    }
}

/// Returns whether a document has a header with a credential anywhere. In every API, a header is an object with `name`
/// and `value`.
pub(super) fn carries_credentials(document: &Value) -> bool {
    match document {
        Value::Object(fields) => {
            let text = |field: &str| fields.get(field).and_then(Value::as_str);
            let header = text("name").zip(text("value"));
            header.is_some_and(|(name, value)| is_credential(name, value)) || fields.values().any(carries_credentials)
        }
        Value::Array(values) => values.iter().any(carries_credentials),
        _ => false,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceSpec<'a> {
    r#type: Option<&'a str>,
    ports: Vec<WrittenServicePort<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenServicePort<'a> {
    name: &'a str,
    port: u16,
    protocol: &'a str,
    app_protocol: &'a str,
}

fn service_spec(service: &Service) -> Option<Value> {
    let Service { external_name, ports } = service;
    let ports = ports.iter().map(|Port { name, port, protocol, app_protocol }| WrittenServicePort {
        name,
        port: *port,
        protocol,
        app_protocol,
    });
    value(ServiceSpec { r#type: external_name.then_some("ExternalName"), ports: ports.collect() })
}

fn secret_data(secret: &Secret) -> Option<Value> {
    value(secret.data.iter().map(|(name, bytes)| (name, STANDARD.encode(bytes))).collect::<BTreeMap<_, _>>())
}

/// Returns a spec of which every part was read.
fn whole_spec(spec: impl Serialize, unread: &[Unread], undecoded: Undecoded) -> Option<Value> {
    if unread.is_empty() { value(spec) } else { undecoded.note("a part of it has an error") }
}

fn value(written: impl Serialize) -> Option<Value> {
    serde_json::to_value(written).ok()
}

/// Removes fields that are unset; decoding treats a null and a missing field alike.
fn leave_out_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(leave_out_nulls);
        }
        Value::Array(entries) => entries.iter_mut().for_each(leave_out_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(document: Value) -> Object {
        match decode(document, None) {
            Decoded::Object(object, _) => *object,
            other => unreachable!("{other:?}"),
        }
    }

    fn text(object: &Object) -> String {
        stored(object, 7).map(|stored| String::from_utf8_lossy(&stored.payload).into_owned()).unwrap_or_default()
    }

    #[test]
    fn payloads_are_canonical_documents() {
        let route = object(json!({
            "kind": "HTTPRoute",
            "apiVersion": "gateway.networking.k8s.io/v1beta1",
            "metadata": {"name": "a", "uid": "u", "generation": 3, "creationTimestamp": "2024-01-01T01:00:00+01:00"},
            "spec": {
                "parentRefs": [{"sectionName": "http", "name": "public", "namespace": null}],
                "rules": [{"name": "first", "backendRefs": [{"port": 80, "name": "b"}], "matches": []}],
            },
        }));
        assert_eq!(
            text(&route),
            "{\"apiVersion\":\"gateway.networking.k8s.io/v1\",\"kind\":\"HTTPRoute\",\"metadata\":{\"annotations\":{},\
             \"creationTimestamp\":\"2024-01-01T00:00:00Z\",\"generation\":3,\"labels\":{},\"name\":\"a\",\
             \"namespace\":\"default\",\"uid\":\"u\"},\"spec\":{\"hostnames\":[],\"parentRefs\":[{\"name\":\"public\",\
             \"sectionName\":\"http\"}],\"rules\":[{\"backendRefs\":[{\"name\":\"b\",\"port\":80}],\"matches\":[],\
             \"name\":\"first\"}]}}"
        );
        let secret = object(json!({
            "kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s", "namespace": "n"},
            "data": {"b": "/w=="}, "stringData": {"a": "text"},
        }));
        assert_eq!(
            text(&secret),
            "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"dGV4dA==\",\"b\":\"/w==\"},\"kind\":\"Secret\",\"metadata\":\
             {\"annotations\":{},\"generation\":0,\"labels\":{},\"name\":\"s\",\"namespace\":\"n\",\"uid\":\"\"},\
             \"type\":\"Opaque\"}"
        );
    }

    #[test]
    fn what_the_store_would_not_take_is_not_stored() {
        let service = object(json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}, "spec": {}}));
        let with = |change: &dyn Fn(&mut Metadata)| {
            let mut changed = service.clone();
            change(&mut changed.metadata);
            (stored(&changed, 7).and_then(|stored| restored(&stored)), Some(changed))
        };
        let (back, longest) = with(&|metadata| metadata.uid = "u".repeat(TEXT_BYTES_MAX).into());
        assert_eq!(back, longest);
        assert_eq!(with(&|metadata| metadata.uid = "u".repeat(TEXT_BYTES_MAX + 1).into()).0, None);
        assert_eq!(
            with(&|metadata| metadata.labels = Arc::new([("l".into(), "x".repeat(PAYLOAD_BYTES_MAX))].into())).0,
            None
        );
        for created in [i64::MIN, i64::MAX] {
            assert_eq!(with(&|metadata| metadata.created = Some(created)).0, None);
        }
        for created in [Timestamp::MIN.as_second(), -1, 0, Timestamp::MAX.as_second()] {
            let (back, changed) = with(&|metadata| metadata.created = Some(created));
            assert_eq!(back, changed);
        }
    }
}
