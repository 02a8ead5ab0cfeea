//! Keys that requests must carry.

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::http::api_key_auth::v3::{
    ApiKeyAuth as Envoy, ApiKeyAuthPerRoute, Credential, Forwarding, KeySource,
};

/// Keys of one policy.
pub const KEYS_MAX: usize = 10_000;
/// Places where one policy looks for them; the CRD allows as many.
pub const SOURCES_MAX: usize = 16;

/// Keys and where they are looked for.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKeyAuth {
    /// Whose each key is; at least one.
    pub clients: BTreeMap<Arc<str>, Arc<str>>,
    /// Where in requests they are looked for, in order.
    pub sources: Vec<Source>,
    /// The header in which back ends see whose key it was.
    pub client_header: Option<Arc<str>>,
    /// Do back ends not see keys?
    pub hide: bool,
}

/// Without the keys.
impl std::fmt::Debug for ApiKeyAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiKeyAuth({} keys, {:?})", self.clients.len(), self.sources)
    }
}

/// A place in requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// A header, first.
    pub header: Arc<str>,
    /// A query parameter, then.
    pub query: Arc<str>,
    /// A cookie, last.
    pub cookie: Arc<str>,
}

impl ApiKeyAuth {
    /// Envoy's form.
    pub(crate) fn encode(&self) -> ApiKeyAuthPerRoute {
        let credential =
            |(key, client): (&Arc<str>, &Arc<str>)| Credential { key: key.to_string(), client: client.to_string() };
        let source = |source: &Source| KeySource {
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

    /// The filter itself, which knows no key.
    pub(crate) fn in_chain() -> Envoy {
        Envoy::default()
    }
}
