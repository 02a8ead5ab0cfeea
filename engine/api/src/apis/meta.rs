//! Decoding of `metadata`: the few fields that decisions depend on, within limits.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde_json::Value;

use crate::object::Metadata;

/// Longest value of an annotation that is kept, in bytes; longer values are notes of tools, not settings.
pub const ANNOTATION_BYTES_MAX: usize = 1024;

/// `metadata` as written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawMetadata {
    /// Name.
    pub name: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// UID.
    pub uid: Option<String>,
    /// Generation.
    pub generation: Option<i64>,
    /// Creation time.
    pub creation_timestamp: Option<Time>,
    /// Labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations.
    pub annotations: Option<BTreeMap<String, String>>,
}

impl RawMetadata {
    /// Reads each field of metadata with faults separately, and leaves out the fields that cannot be read.
    pub fn guessed(written: &Value) -> Self {
        let text = |name: &str| written.get(name).and_then(Value::as_str).map(str::to_owned);
        let texts = |name: &str| {
            let entries = written.get(name)?.as_object()?.iter();
            Some(entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect())
        };
        Self {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            generation: written.get("generation").and_then(Value::as_i64),
            creation_timestamp: None,
            labels: texts("labels"),
            annotations: texts("annotations"),
        }
    }

    /// Returns the fields that Holdfast keeps.
    pub fn keep(self) -> Metadata {
        let mut annotations = self.annotations.unwrap_or_default();
        annotations.retain(|_, value| value.len() <= ANNOTATION_BYTES_MAX);
        Metadata {
            uid: self.uid.unwrap_or_default().into(),
            generation: self.generation.unwrap_or(0),
            created: self.creation_timestamp.map(|time| time.0.as_second()),
            incarnation: 0,
            labels: self.labels.unwrap_or_default().into(),
            annotations: annotations.into(),
        }
    }
}
