//! API key authentication: model and Envoy form.

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::http::api_key_auth::v3::{
    ApiKeyAuth as Envoy, ApiKeyAuthPerRoute, Credential, Forwarding, KeySource,
};

/// Maximum number of keys in one policy.
pub const KEYS_MAX: usize = 10_000;
/// Maximum number of key sources in one policy; equal to the limit in the CRD.
pub const SOURCES_MAX: usize = 16;

/// API keys and their sources in requests.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKeys {
    /// The client of each key; at least one entry.
    pub clients: BTreeMap<Arc<str>, Arc<str>>,
    /// Where keys are looked up in requests, in order.
    pub sources: Vec<ApiKeySource>,
    /// The request header that carries the client's name to backends.
    pub client_header: Option<Arc<str>>,
    /// Whether keys are removed before requests are forwarded to backends.
    pub hide: bool,
}

/// Omits the keys.
impl std::fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiKeyAuth({} keys, {:?})", self.clients.len(), self.sources)
    }
}

/// A source of keys in requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiKeySource {
    /// A header; looked up first.
    pub header: Arc<str>,
    /// A query parameter; looked up second.
    pub query: Arc<str>,
    /// A cookie; looked up last.
    pub cookie: Arc<str>,
}

impl ApiKeys {
    /// Returns the per-route configuration, with the keys.
    pub fn encode(&self) -> ApiKeyAuthPerRoute {
        let credential =
            |(key, client): (&Arc<str>, &Arc<str>)| Credential { key: key.to_string(), client: client.to_string() };
        let source = |source: &ApiKeySource| KeySource {
            header: source.header.to_string(),
            query: source.query.to_string(),
            cookie: source.cookie.to_string(),
        };
        ApiKeyAuthPerRoute {
            credentials: self.clients.iter().map(credential).collect(),
            key_sources: self.sources.iter().map(source).collect(),
            allowed_clients: Vec::new(),
            forwarding: Some(Forwarding {
                header: self.client_header.as_deref().unwrap_or_default().to_owned(),
                hide_credentials: self.hide,
            }),
        }
    }

    /// Returns the configuration of the filter in the chain, which has no keys.
    pub(crate) fn in_chain() -> Envoy {
        Envoy::default()
    }
}
