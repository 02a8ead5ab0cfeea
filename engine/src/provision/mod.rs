//! The data plane of a Gateway: which Deployment, Service, ServiceAccount and bootstrap it should have.
//!
//! Pure functions from a [`DataPlane`] (a Gateway, its class, its ports and the [`Parameters`] that both name) and an
//! [`Operator`]'s settings to the objects as the API server takes them. Whether they are there, who writes them and when
//! is a matter of `run/kubernetes`; which listeners are served is one of `translate`.

pub mod addresses;
mod bootstrap;
pub mod compare;
mod deployment;
mod extras;
pub mod names;
pub mod parameters;
mod quantity;
pub(crate) mod secure;
mod service;

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_graph::ObjectKey;
use serde_json::{Map, Value, json};

pub use bootstrap::READY_PORT;
pub use parameters::{Flaw, KEY, Parameters};

use crate::apis::gateway::GROUP;

/// Who owns what is applied.
pub const FIELD_OWNER: &str = "holdfast";
/// The label of everything that is ours.
pub const OWNED_LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "holdfast");
/// The label that names the Gateway, as Gateway API has it for objects made for one.
pub const GATEWAY_LABEL: &str = "gateway.networking.k8s.io/gateway-name";
/// The annotation with the hash of an object as it was applied: what is no longer said differs by it.
pub const APPLIED_ANNOTATION: &str = "holdfast.dev/applied";

/// The levels of single loggers of Envoy. The one of `misc` warns at each start that a filter of every chain,
/// `api_key_auth`, is marked as work in progress; nothing else that it warns of is for operators.
pub const QUIET: &str = "misc:error";

/// A port of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// As clients know it.
    pub port: u16,
    /// As Envoy binds it.
    pub bound: u16,
    /// Is TLS spoken there?
    pub tls: bool,
}

/// What is wanted for one Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct DataPlane {
    /// The Gateway.
    pub gateway: ObjectKey,
    /// Its UID: who is deleted with it.
    pub uid: Arc<str>,
    /// `spec.infrastructure.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.infrastructure.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// Its ports, in order, each once.
    pub ports: Vec<Port>,
    /// What its class and itself say; `None` where that cannot be used, so that what runs stays as it is.
    pub parameters: Option<Arc<Parameters>>,
}

/// How the data plane of a Gateway stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provisioned {
    /// Where clients reach it.
    pub addresses: Vec<addresses::Address>,
    /// Why it is not as it should be.
    pub trouble: Option<String>,
}

/// What is the same for all data planes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// The image of Envoy where parameters name none.
    pub image: String,
    /// The image of Holdfast, whose `drain` ends connections in good time; without one they are cut at the end.
    pub drain_image: Option<String>,
    /// The audience of the token by which an Envoy is known to the xDS server.
    pub token_audience: String,
    /// Whom Envoys trust to be the xDS server (PEM), where that is told to them.
    pub authorities: Option<String>,
    /// The name in the certificate of the xDS server.
    pub server_name: String,
}

/// The objects of a data plane, in the order in which they are applied; none where nothing can be said of it.
///
/// `bootstrap` is how an Envoy of the Gateway finds its xDS server.
pub fn desired(plane: &DataPlane, operator: &Operator, bootstrap: &Value) -> Vec<Value> {
    // Without a port there is nothing to serve, nor a Service that the API server would take; what is there stays.
    let Some(parameters) = plane.parameters.as_ref().filter(|_| !plane.ports.is_empty()) else { return Vec::new() };
    let mut bootstrap = bootstrap::provisioned(bootstrap.clone(), parameters);
    secure::secure(&mut bootstrap, operator);
    let (map, version) = extras::config_map(plane, operator, &bootstrap);
    let mut objects = vec![
        extras::service_account(plane),
        map,
        service::service(plane, parameters),
        deployment::deployment(plane, operator, parameters, &version),
    ];
    objects.extend(extras::budget(plane, parameters));
    objects.extend(extras::autoscaler(plane, parameters));
    objects.iter_mut().for_each(seal);
    objects
}

/// Adds the hash of the object to its annotations.
fn seal(object: &mut Value) {
    let hash = hash(&object.to_string());
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.insert(APPLIED_ANNOTATION.into(), hash.into());
    }
}

/// A short hash of a text.
fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().chars().take(16).collect()
}

/// An object of the data plane without its content.
fn object(plane: &DataPlane, api_version: &str, kind: &str) -> Map<String, Value> {
    metadata(plane, api_version, kind, &BTreeMap::new(), &BTreeMap::new())
}

/// The same with further labels and annotations, which go before those of the Gateway.
fn metadata(
    plane: &DataPlane,
    api_version: &str,
    kind: &str,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Map<String, Value> {
    let mut all = plane.labels.clone();
    all.extend(labels.clone());
    all.extend(own_labels(plane));
    let mut notes = plane.annotations.clone();
    notes.extend(annotations.clone());
    let owner = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "Gateway",
        "name": plane.gateway.name,
        "uid": plane.uid,
        "controller": true,
        "blockOwnerDeletion": false,
    });
    let fields = [
        ("apiVersion", json!(api_version)),
        ("kind", json!(kind)),
        (
            "metadata",
            json!({
                "name": names::name(&plane.gateway),
                "namespace": plane.gateway.namespace,
                "labels": all,
                "annotations": notes,
                "ownerReferences": [owner],
            }),
        ),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The labels by which Pods are selected; they never change.
fn selector(plane: &DataPlane) -> BTreeMap<String, String> {
    let (name, value) = OWNED_LABEL;
    [(name.to_owned(), value.to_owned()), (GATEWAY_LABEL.to_owned(), names::label(&plane.gateway.name))].into()
}

fn own_labels(plane: &DataPlane) -> BTreeMap<String, String> {
    let mut labels = selector(plane);
    labels.insert("app.kubernetes.io/name".into(), "envoy".into());
    labels.insert("app.kubernetes.io/component".into(), "proxy".into());
    labels
}

/// Puts fields into an object.
fn with(mut object: Map<String, Value>, fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    object.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
    let mut value = Value::Object(object);
    value.sort_all_objects();
    value
}

/// Adds what is said at all.
fn put<T: serde::Serialize>(fields: &mut Value, name: &str, said: Option<T>) {
    if let (Some(fields), Some(said)) = (fields.as_object_mut(), said) {
        fields.insert(name.to_owned(), json!(said));
    }
}
