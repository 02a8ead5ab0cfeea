//! Backend: a destination of requests that is not a Service.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::policy::{self, Unread};
use crate::apis::Body;
use crate::apis::decode::Found;

/// A Backend; one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// Type; has no effect.
    #[serde(rename = "type")]
    pub kind: Option<Arc<str>>,
    /// An AWS service.
    pub aws: Option<Aws>,
    /// Static hosts by name or address.
    #[serde(rename = "static")]
    pub fixed: Option<Static>,
    /// Dynamic forward proxy: each request chooses its destination.
    pub dynamic_forward_proxy: Option<DynamicForwardProxy>,
    /// A GCP service.
    pub gcp: Option<Gcp>,
    /// Groups of other Backends in the order of priority, for failover.
    pub priority_groups: Option<Vec<PriorityGroup>>,
    /// Parts that could not be read.
    #[serde(skip)]
    pub unread: Vec<Unread>,
}

/// Static hosts by name or address.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Static {
    /// The hosts.
    #[serde(default)]
    pub hosts: Vec<StaticHost>,
    /// Application protocol of the hosts.
    pub app_protocol: Option<Arc<str>>,
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StaticHost {
    /// Name or address.
    pub host: Arc<str>,
    /// Port.
    pub port: i64,
}

/// Dynamic forward proxy: each request chooses its destination.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DynamicForwardProxy {
    /// Whether requests are sent by TLS.
    pub enable_tls: Option<bool>,
}

/// A GCP service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gcp {
    /// Host.
    pub host: Arc<str>,
    /// Audience of the identity tokens.
    pub audience: Option<Arc<str>>,
}

/// Backends of equal priority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PriorityGroup {
    /// The Backends.
    #[serde(default)]
    pub backend_refs: Vec<Local>,
}

/// A reference to an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Local {
    /// Name.
    #[serde(default)]
    pub name: Arc<str>,
}

/// An AWS service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Aws {
    /// A Lambda function.
    pub lambda: Option<Lambda>,
    /// EC2 instances.
    pub ec2: Option<Ec2>,
    /// Account.
    pub account_id: Option<Arc<str>>,
    /// Credentials.
    pub auth: Option<AwsAuth>,
    /// Region.
    pub region: Option<Arc<str>>,
}

/// A Lambda function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lambda {
    /// Account.
    pub account_id: Option<Arc<str>>,
    /// URL of the endpoint.
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

/// EC2 instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ec2 {
    /// `PrivateIP` or `PublicIP`.
    pub address_type: Option<Arc<str>>,
    /// Filters that select the instances.
    pub filters: Option<Vec<Ec2Filter>>,
    /// Port.
    pub port: Option<i64>,
}

/// A filter of instances by tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ec2Filter {
    /// A tag with any value.
    pub key: Option<Arc<str>>,
    /// A tag with this value.
    pub key_value: Option<Ec2Tag>,
}

/// A tag with its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ec2Tag {
    /// Tag.
    pub key: Arc<str>,
    /// Value.
    pub value: Arc<str>,
}

/// Credentials for requests to AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsAuth {
    /// `Secret` or `AssumeRole`.
    #[serde(rename = "type")]
    pub kind: Option<Arc<str>>,
    /// A Secret with access keys.
    pub secret_ref: Option<Local>,
    /// A role to assume.
    pub assume_role: Option<AssumeRole>,
}

/// A role to assume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AssumeRole {
    /// ARN of the role.
    pub role_arn: Arc<str>,
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let before = found.faults.len();
    let spec = document.get_mut("spec").map(Value::take).unwrap_or_default();
    let backend: Backend = found.typed("spec", &spec)?;
    let unread = policy::whole_or_not(found, before);
    Some(Body::Backend(Arc::new(Backend { unread, ..backend })))
}
