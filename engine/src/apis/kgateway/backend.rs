//! Backend: where requests go that go to no Service.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::policy::{self, Unread};
use crate::apis::Body;
use crate::apis::decode::Found;

/// A Backend; one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// Of no effect.
    #[serde(rename = "type")]
    pub kind: Option<Arc<str>>,
    /// Services of AWS.
    pub aws: Option<Aws>,
    /// Hosts by name or address.
    #[serde(rename = "static")]
    pub fixed: Option<Static>,
    /// Wherever a request wants to go.
    pub dynamic_forward_proxy: Option<DynamicForwardProxy>,
    /// Services of GCP.
    pub gcp: Option<Gcp>,
    /// Other Backends, the next where one fails.
    pub priority_groups: Option<Vec<PriorityGroup>>,
    /// What of it could not be read.
    #[serde(skip)]
    pub unread: Vec<Unread>,
}

/// Hosts by name or address.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Static {
    /// The hosts.
    #[serde(default)]
    pub hosts: Vec<Host>,
    /// What they are spoken to in.
    pub app_protocol: Option<Arc<str>>,
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    /// Name or address.
    pub host: Arc<str>,
    /// Port.
    pub port: i64,
}

/// Wherever a request wants to go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DynamicForwardProxy {
    /// By TLS?
    pub enable_tls: Option<bool>,
}

/// Services of GCP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gcp {
    /// Host.
    pub host: Arc<str>,
    /// For whom tokens are made.
    pub audience: Option<Arc<str>>,
}

/// Backends of equal rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PriorityGroup {
    /// The Backends.
    #[serde(default)]
    pub backend_refs: Vec<Local>,
}

/// An object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Local {
    /// Name.
    #[serde(default)]
    pub name: Arc<str>,
}

/// Services of AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Aws {
    /// A function.
    pub lambda: Option<Lambda>,
    /// Machines.
    pub ec2: Option<Ec2>,
    /// Account.
    pub account_id: Option<Arc<str>>,
    /// As whom.
    pub auth: Option<AwsAuth>,
    /// Region.
    pub region: Option<Arc<str>>,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lambda {
    /// Account.
    pub account_id: Option<Arc<str>>,
    /// Address.
    #[serde(rename = "endpointURL")]
    pub endpoint_url: Option<Arc<str>>,
    /// Name.
    pub function_name: Arc<str>,
    /// `Sync` or `Async`.
    pub invocation_mode: Option<Arc<str>>,
    /// `None` or `Envoy`.
    pub payload_transform_mode: Option<Arc<str>>,
    /// Version.
    pub qualifier: Option<Arc<str>>,
}

/// Machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ec2 {
    /// `PrivateIP` or `PublicIP`.
    pub address_type: Option<Arc<str>>,
    /// Which.
    pub filters: Option<Vec<Ec2Filter>>,
    /// Port.
    pub port: Option<i64>,
}

/// Machines by their tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ec2Filter {
    /// A tag with any value.
    pub key: Option<Arc<str>>,
    /// A tag with this value.
    pub key_value: Option<KeyValue>,
}

/// A tag with its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyValue {
    /// Tag.
    pub key: Arc<str>,
    /// Value.
    pub value: Arc<str>,
}

/// As whom AWS is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsAuth {
    /// `Secret` or `AssumeRole`.
    #[serde(rename = "type")]
    pub kind: Option<Arc<str>>,
    /// A Secret with keys.
    pub secret_ref: Option<Local>,
    /// A role.
    pub assume_role: Option<AssumeRole>,
}

/// A role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AssumeRole {
    /// Its name.
    pub role_arn: Arc<str>,
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let before = found.faults.len();
    let spec = document.get_mut("spec").map(Value::take).unwrap_or_default();
    let backend: Backend = found.typed("spec", &spec)?;
    let unread = policy::whole_or_not(found, before);
    Some(Body::Backend(Arc::new(Backend { unread, ..backend })))
}
