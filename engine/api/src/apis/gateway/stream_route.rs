//! Routes of connections and datagrams, which are forwarded as bytes: TCPRoute, TLSRoute and UDPRoute.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#tlsroute>

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::default_scope::USE_DEFAULT_GATEWAYS;
use super::filter::RouteFilter;
use super::references::BackendRef;
use super::route::{self, RouteRule};
use crate::apis::Body;
use crate::apis::decode::Found;

/// Number of hostnames of one TLSRoute; the limit of the CRD.
pub const SERVER_NAMES_MAX: usize = 1024;

/// A rule of a TCPRoute, TLSRoute or UDPRoute. It has no match: it is for everything that the route receives.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamRule {
    /// Name, unique within the route.
    pub name: Option<Arc<str>>,
    /// Backends.
    pub backend_refs: Option<Vec<BackendRef>>,
}

impl RouteRule for StreamRule {
    const MOST_HOSTNAMES: usize = SERVER_NAMES_MAX;

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn filters(&self) -> &[RouteFilter] {
        &[]
    }

    fn backends(&self) -> &[BackendRef] {
        self.backend_refs.as_deref().unwrap_or_default()
    }

    fn written_matches(&self) -> Vec<Value> {
        Vec::new()
    }

    fn has_matches_of(&self, _: &Self) -> bool {
        true
    }
}

pub(in crate::apis) fn decode_tls(mut document: Value, found: &mut Found) -> Option<Body> {
    route::decode_spec(&mut document, found).map(|route| Body::StreamRoute(Arc::new(route)))
}

/// Decodes a TCPRoute or UDPRoute.
pub(in crate::apis) fn decode_port(mut document: Value, found: &mut Found) -> Option<Body> {
    // Connections without TLS, and datagrams, have no server name.
    let spec = document.get_mut("spec").and_then(Value::as_object_mut);
    let hostnames = spec.and_then(|spec| spec.remove_entry("hostnames"));
    let known = ["parentRefs", "rules", USE_DEFAULT_GATEWAYS];
    let wrong = found.unknown_in_spec(hostnames.iter().map(|(name, _)| name), &known);
    decode_tls(document, found).filter(|_| wrong.is_empty())
}
