//! Fields of TrafficPolicies that change headers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::access::SecretKeyRef;

/// Changes to headers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderModifiers {
    /// Changes to request headers.
    pub request: Option<HeaderFilter>,
    /// Changes to response headers.
    pub response: Option<HeaderFilter>,
}

/// Changes to the headers of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderFilter {
    /// Headers that are set; existing values are overwritten.
    pub set: Option<Vec<Header>>,
    /// Headers that are added to existing ones.
    pub add: Option<Vec<Header>>,
    /// Headers that are removed.
    pub remove: Option<Vec<Arc<str>>>,
}

/// A header, with its value in the policy or in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Name; the key of the Secret's entry where unset.
    pub name: Option<Arc<str>>,
    /// Value.
    pub value: Option<Arc<str>>,
    /// Reference to a Secret with the value.
    pub secret_ref: Option<SecretKeyRef>,
}

/// Transformation of headers, bodies and metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Transformation {
    /// Transformation of requests.
    pub request: Option<Transform>,
    /// Transformation of responses.
    pub response: Option<Transform>,
}

/// Transformation of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Transform {
    /// Headers that are set; existing values are overwritten.
    pub set: Option<Vec<Template>>,
    /// Headers that are added to existing ones.
    pub add: Option<Vec<Template>>,
    /// Headers that are removed.
    pub remove: Option<Vec<Arc<str>>>,
    /// The body.
    pub body: Option<BodyTransform>,
    /// Metadata for filters that run later.
    pub dynamic_metadata: Option<Vec<MetadataTransform>>,
}

/// A header made from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Name.
    pub name: Arc<str>,
    /// Template.
    pub value: Option<Arc<str>>,
}

/// A body made from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BodyTransform {
    /// Parser of the body: `AsString`, `AsJson` or `None`.
    pub parse_as: Option<Arc<str>>,
    /// Template.
    pub value: Option<Arc<str>>,
}

/// Metadata made from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataTransform {
    /// Namespace.
    pub namespace: Option<Arc<str>>,
    /// Key.
    pub key: Arc<str>,
    /// Value.
    pub value: Option<MetadataValue>,
}

/// A value of metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataValue {
    /// Template.
    pub string_value: Option<Arc<str>>,
}
