//! Fields of TrafficPolicies that say who may come in.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::policy::Disable;

/// Conditions under which requests pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rbac {
    /// The conditions.
    pub policy: RbacPolicy,
    /// `Allow` or `Deny`.
    pub action: Option<Arc<str>>,
}

/// Conditions, of which one must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RbacPolicy {
    /// In CEL.
    #[serde(default)]
    pub match_expressions: Vec<Arc<str>>,
}

/// Who may come in, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Acl {
    /// What happens to those whom no rule names: `allow` or `deny`.
    pub default_action: Option<Arc<str>>,
    /// The most precise range counts.
    pub rules: Option<Vec<AclRule>>,
    /// What those are told who may not come in.
    pub deny_response: Option<AclResponse>,
}

/// What happens to some addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AclRule {
    /// Name.
    pub name: Option<Arc<str>>,
    /// Their ranges.
    #[serde(default)]
    pub cidrs: Vec<Arc<str>>,
    /// `allow` or `deny`.
    pub action: Arc<str>,
}

/// What those are told who may not come in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AclResponse {
    /// Status.
    pub status_code: Option<i64>,
    /// Headers.
    pub headers: Option<Vec<AclHeader>>,
    /// The header that names the rule.
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

/// User names and passwords.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    /// Lines of a htpasswd file.
    pub users: Option<Vec<Arc<str>>>,
    /// A Secret with such a file.
    pub secret_ref: Option<SecretKeyRef>,
    /// None at all, whatever is said elsewhere.
    pub disable: Option<Disable>,
}

/// An entry of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name.
    pub name: Arc<str>,
    /// Namespace, the policy's own where unset.
    pub namespace: Option<Arc<str>>,
    /// The entry.
    pub key: Option<Arc<str>>,
}

/// Keys that requests must carry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeyAuth {
    /// Where in requests they are looked for, in order; the header `api-key` where unset.
    pub key_sources: Option<Vec<KeySource>>,
    /// Do back ends see them?
    pub forward_credential: Option<bool>,
    /// The header in which back ends see whose key it was.
    pub client_id_header: Option<Arc<str>>,
    /// A Secret with the keys, one for each client.
    pub secret_ref: Option<SecretRef>,
    /// All Secrets of the policy's namespace with these labels.
    pub secret_selector: Option<SecretSelector>,
    /// None at all, whatever is said elsewhere.
    pub disable: Option<Disable>,
}

/// A place in requests; one of the fields.
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

/// A Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Group, the core group where unset.
    pub group: Option<Arc<str>>,
    /// Kind, `Secret` where unset.
    pub kind: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
    /// Namespace, the policy's own where unset.
    pub namespace: Option<Arc<str>>,
}

/// Secrets, by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretSelector {
    /// Labels that they all have.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}
