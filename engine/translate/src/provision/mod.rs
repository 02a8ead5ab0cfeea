//! The data plane of a Gateway: its desired Deployment, Service, ServiceAccount and bootstrap.
//!
//! Pure functions from a [`DataPlane`] (a Gateway, its class, its ports and the [`Parameters`] of both) and the
//! settings of an [`Operator`] to objects in the form of the API server. `kubernetes/` of `holdfast-cli` compares and
//! applies them; translation decides which listeners are served.

pub mod addresses;
mod bootstrap;
pub mod compare;
mod deployment;
mod extras;
pub mod names;
pub mod parameters;
mod quantity;
pub mod secure;
mod service;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

pub use bootstrap::READY_PORT;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::kinds;
use holdfast_envoy::model::port::Transport;
use holdfast_graph::ObjectKey;
pub use parameters::{Flaw, KEY, Parameters};
use serde_json::{Map, Value, json};

/// Field manager of applied objects.
pub const FIELD_OWNER: &str = "holdfast";
/// Label of all objects that Holdfast manages.
pub const OWNED_LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "holdfast");
/// Label with the name of the Gateway, as Gateway API defines it for generated objects.
pub const GATEWAY_LABEL: &str = "gateway.networking.k8s.io/gateway-name";
/// Annotation with the hash of the applied object: a removed field changes the hash.
pub const APPLIED_ANNOTATION: &str = "holdfast.dev/applied";

/// Log levels of single loggers of Envoy. The logger `misc` warns at each start that a filter of every chain,
/// `api_key_auth`, is work in progress; its other warnings are not relevant for operators.
pub const QUIET: &str = "misc:error";

/// A port of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Port number for clients.
    pub port: u16,
    /// Port number that Envoy binds.
    pub bound: u16,
    /// Transport protocol.
    pub transport: Transport,
    /// The port speaks TLS.
    pub tls: bool,
}

/// Desired data plane of one Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct DataPlane {
    /// The Gateway.
    pub gateway: ObjectKey,
    /// UID of the Gateway: the owner of the generated objects, which are deleted with it.
    pub uid: Arc<str>,
    /// `spec.infrastructure.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.infrastructure.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// Ports of the Gateway, sorted and without duplicates.
    pub ports: Vec<Port>,
    /// The address that the Gateway requests of the load balancer; unset where it assigns one.
    pub address: Option<IpAddr>,
    /// Parameters of the class and the Gateway; `None` if they are invalid, so that the existing data plane stays
    /// unchanged.
    pub parameters: Option<Arc<Parameters>>,
}

/// Observed state of the data plane of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provisioned {
    /// Addresses for clients.
    pub addresses: Vec<addresses::Address>,
    /// Reason why the data plane differs from the desired state.
    pub problem: Option<String>,
}

/// Settings that all data planes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Default image of Envoy.
    pub image: String,
    /// Image of Holdfast. Its command `drain` makes Envoy drain connections early; without it, connections are cut at
    /// the end.
    pub drain_image: Option<String>,
    /// Audience of the token that authenticates an Envoy at the xDS server.
    pub token_audience: String,
    /// Certificate authorities (PEM) that Envoys trust for the xDS server, if set.
    pub authorities: Option<String>,
    /// Name in the certificate of the xDS server.
    pub server_name: String,
}

/// Returns the objects of a data plane, in the order in which they are applied; none if they cannot be determined.
///
/// `bootstrap` is the bootstrap by which an Envoy of the Gateway connects to its xDS server.
pub fn desired(plane: &DataPlane, operator: &Operator, bootstrap: &Value) -> Vec<Value> {
    // Without a port there is no listener to serve, and the API server would reject the Service; existing objects stay.
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

/// Returns a short hash of a text.
fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().chars().take(16).collect()
}

/// Returns an object of the data plane with metadata only.
fn object(plane: &DataPlane, api_version: &str, kind: &str) -> Map<String, Value> {
    metadata(plane, api_version, kind, &BTreeMap::new(), &BTreeMap::new())
}

/// Returns an object with metadata only, with additional labels and annotations that override those of the Gateway.
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
        "kind": kinds::GATEWAY,
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

/// Labels that select the Pods; they never change.
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

/// Adds fields to an object.
fn with(mut object: Map<String, Value>, fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    object.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
    let mut value = Value::Object(object);
    value.sort_all_objects();
    value
}

/// Adds a field if it has a value.
fn put<T: serde::Serialize>(fields: &mut Value, name: &str, value: Option<T>) {
    if let (Some(fields), Some(value)) = (fields.as_object_mut(), value) {
        fields.insert(name.to_owned(), json!(value));
    }
}
