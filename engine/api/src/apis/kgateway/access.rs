//! Fields of TrafficPolicies for access control.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::policy::Disable;

/// RBAC: conditions under which requests are allowed or denied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rbac {
    /// The conditions.
    pub policy: RbacPolicy,
    /// `Allow` or `Deny`.
    pub action: Option<Arc<str>>,
}

/// Conditions, of which at least one must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RbacPolicy {
    /// Conditions in CEL.
    #[serde(default)]
    pub match_expressions: Vec<Arc<str>>,
}

/// Access control by client address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Acl {
    /// Action for clients without a matching rule: `allow` or `deny`.
    pub default_action: Option<Arc<str>>,
    /// Rules; the most specific range applies.
    pub rules: Option<Vec<AclRule>>,
    /// Response to denied requests.
    pub deny_response: Option<AclResponse>,
}

/// Action for some client addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AclRule {
    /// Name.
    pub name: Option<Arc<str>>,
    /// Ranges of addresses.
    #[serde(default)]
    pub cidrs: Vec<Arc<str>>,
    /// `allow` or `deny`.
    pub action: Arc<str>,
}

/// Response to denied requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AclResponse {
    /// Status.
    pub status_code: Option<i64>,
    /// Headers.
    pub headers: Option<Vec<AclHeader>>,
    /// Name of the header with the name of the rule.
    pub blocked_by_header_name: Option<Arc<str>>,
}

/// A header of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AclHeader {
    /// Name.
    pub name: Arc<str>,
    /// Value.
    pub value: Arc<str>,
}

/// Basic authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    /// Lines of an htpasswd file.
    pub users: Option<Vec<Arc<str>>>,
    /// A Secret with an htpasswd file.
    pub secret_ref: Option<SecretKeyRef>,
    /// Disables basic authentication, whatever less specific policies specify.
    pub disable: Option<Disable>,
}

/// A reference to an entry of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name.
    pub name: Arc<str>,
    /// Namespace, that of the policy where unset.
    pub namespace: Option<Arc<str>>,
    /// Key of the entry.
    pub key: Option<Arc<str>>,
}

/// API key authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeyAuth {
    /// Places in requests where keys are searched for, in order; the header `api-key` where unset.
    pub key_sources: Option<Vec<KeySource>>,
    /// Whether the key is forwarded to backends.
    pub forward_credential: Option<bool>,
    /// Header in which backends receive the name of the client.
    pub client_id_header: Option<Arc<str>>,
    /// A Secret with the keys, one for each client.
    pub secret_ref: Option<SecretRef>,
    /// All Secrets with these labels in the namespace of the policy.
    pub secret_selector: Option<SecretSelector>,
    /// Disables API key authentication, whatever less specific policies specify.
    pub disable: Option<Disable>,
}

/// A place of a key in requests; one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeySource {
    /// A header.
    pub header: Option<Arc<str>>,
    /// A query parameter.
    pub query: Option<Arc<str>>,
    /// A cookie.
    pub cookie: Option<Arc<str>>,
}

/// A reference to a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Group, the core group where unset.
    pub group: Option<Arc<str>>,
    /// Kind, `Secret` where unset.
    pub kind: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
    /// Namespace, that of the policy where unset.
    pub namespace: Option<Arc<str>>,
}

/// A selector of Secrets by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretSelector {
    /// Labels that every Secret must have.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}
