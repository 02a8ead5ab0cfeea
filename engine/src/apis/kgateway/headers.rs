//! Fields of TrafficPolicies that change headers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::access::SecretKeyRef;

/// Changes to headers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderModifiers {
    /// Of requests.
    pub request: Option<HeaderFilter>,
    /// Of responses.
    pub response: Option<HeaderFilter>,
}

/// Changes to the headers of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderFilter {
    /// Put in the place of what is there.
    pub set: Option<Vec<Header>>,
    /// Added to what is there.
    pub add: Option<Vec<Header>>,
    /// Taken away.
    pub remove: Option<Vec<Arc<str>>>,
}

/// A header, with its value here or in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Name; the Secret's entry where unset.
    pub name: Option<Arc<str>>,
    /// Value.
    pub value: Option<Arc<str>>,
    /// Where the value is.
    pub secret_ref: Option<SecretKeyRef>,
}

/// Headers, body and metadata are rewritten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Transformation {
    /// Of requests.
    pub request: Option<Transform>,
    /// Of responses.
    pub response: Option<Transform>,
}

/// What is rewritten of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Transform {
    /// Put in the place of what is there.
    pub set: Option<Vec<Template>>,
    /// Added to what is there.
    pub add: Option<Vec<Template>>,
    /// Taken away.
    pub remove: Option<Vec<Arc<str>>>,
    /// The body.
    pub body: Option<BodyTransform>,
    /// Metadata for filters that come after.
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
    /// How the body is read: `AsString`, `AsJson` or `None`.
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
