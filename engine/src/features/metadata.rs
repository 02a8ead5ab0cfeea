//! Metadata for filters and logs that come after, from texts and headers.

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::http::header_to_metadata::v3::Config;
use envoy_types::pb::envoy::extensions::filters::http::header_to_metadata::v3::config::{KeyValuePair, Rule};

/// Entries of one direction; the CRD allows as many.
pub const ENTRIES_MAX: usize = 16;

/// Metadata of both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Made when a request comes.
    pub request: Vec<Entry>,
    /// Made when a response comes.
    pub response: Vec<Entry>,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Key.
    pub key: Arc<str>,
    /// Value.
    pub value: Source,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// It is this text.
    Text(Arc<str>),
    /// A header; there is no entry where that is not there.
    Header(Arc<str>),
}

impl Metadata {
    /// Is there none?
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Envoy's form. A text goes with a header that is always there.
    pub(crate) fn encode(&self) -> Config {
        let rules = |entries: &[Entry], always: &str| entries.iter().map(|entry| entry.encode(always)).collect();
        Config {
            request_rules: rules(&self.request, ":method"),
            response_rules: rules(&self.response, ":status"),
            ..Default::default()
        }
    }
}

impl Entry {
    fn encode(&self, always: &str) -> Rule {
        let (header, value) = match &self.value {
            Source::Text(text) => (always.to_owned(), text.to_string()),
            Source::Header(name) => (name.to_string(), String::new()),
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
