//! Decodes `metadata`: the few fields that decisions are made from, within limits.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use crate::object::Metadata;

/// Annotations with longer values (bytes) are left behind: they are notes of tools, not settings.
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
    /// What is kept of it.
    pub fn keep(self) -> Metadata {
        let mut annotations = self.annotations.unwrap_or_default();
        annotations.retain(|_, value| value.len() <= ANNOTATION_BYTES_MAX);
        Metadata {
            uid: self.uid.unwrap_or_default().into(),
            generation: self.generation.unwrap_or(0),
            created: self.creation_timestamp.map(|time| time.0.as_second()),
            labels: self.labels.unwrap_or_default(),
            annotations,
        }
    }
}
