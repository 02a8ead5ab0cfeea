//! Dynamic metadata from texts and headers, for later filters and access logs.

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::http::header_to_metadata::v3::Config;
use envoy_types::pb::envoy::extensions::filters::http::header_to_metadata::v3::config::{KeyValuePair, Rule};

/// Maximum number of entries in one direction; equal to the limit in the CRD.
pub const ENTRIES_MAX: usize = 16;

/// Metadata of both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataSettings {
    /// Entries that are set when a request arrives.
    pub request: Vec<MetadataEntry>,
    /// Entries that are set when a response arrives.
    pub response: Vec<MetadataEntry>,
}

/// A metadata entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataEntry {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The key.
    pub key: Arc<str>,
    /// The value.
    pub value: MetadataSource,
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataSource {
    /// A fixed text.
    Text(Arc<str>),
    /// A header; without the header, the entry is not set.
    Header(Arc<str>),
}

impl MetadataSettings {
    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the Envoy configuration. A fixed text is bound to a header that is always present.
    pub fn encode(&self) -> Config {
        let rules =
            |entries: &[MetadataEntry], always: &str| entries.iter().map(|entry| entry.encode(always)).collect();
        Config {
            request_rules: rules(&self.request, ":method"),
            response_rules: rules(&self.response, ":status"),
            ..Default::default()
        }
    }
}

impl MetadataEntry {
    fn encode(&self, always: &str) -> Rule {
        let (header, value) = match &self.value {
            MetadataSource::Text(text) => (always.to_owned(), text.to_string()),
            MetadataSource::Header(name) => (name.to_string(), String::new()),
        };
        let pair = KeyValuePair {
            metadata_namespace: self.namespace.to_string(),
            key: self.key.to_string(),
            value,
            ..Default::default()
        };
        Rule { header, on_header_present: Some(pair), ..Default::default() }
    }
}
