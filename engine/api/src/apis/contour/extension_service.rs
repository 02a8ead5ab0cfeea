//! ExtensionService: a service that Envoy calls, for example for authorization.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::policy::{LoadBalancerPolicy, TimeoutPolicy};
use super::route::UpstreamValidation;
use crate::apis::Body;
use crate::apis::decode::Found;

/// An ExtensionService.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionService {
    /// The Services that provide it.
    #[serde(default)]
    pub services: Vec<ExtensionServiceTarget>,
    /// Requirements on the certificates of the Services.
    pub validation: Option<UpstreamValidation>,
    /// `h2`, `h2c` or `http/1.1`; `h2` where unset.
    pub protocol: Option<Arc<str>>,
    /// Load balancing policy.
    pub load_balancer_policy: Option<LoadBalancerPolicy>,
    /// Time limits.
    pub timeout_policy: Option<TimeoutPolicy>,
    /// Version of the protocol: `v3`.
    pub protocol_version: Option<Arc<str>>,
    /// Limits on concurrent connections and requests.
    pub circuit_breaker_policy: Option<CircuitBreakers>,
}

/// A Service that provides an ExtensionService.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionServiceTarget {
    /// Name.
    pub name: Arc<str>,
    /// Port.
    pub port: i64,
    /// Share of the requests.
    pub weight: Option<i64>,
}

/// Limits on concurrent connections and requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CircuitBreakers {
    /// Connections.
    pub max_connections: Option<i64>,
    /// Requests that wait for a connection.
    pub max_pending_requests: Option<i64>,
    /// Concurrent requests.
    pub max_requests: Option<i64>,
    /// Concurrent retries.
    pub max_retries: Option<i64>,
    /// Connections to one endpoint.
    pub per_host_max_connections: Option<i64>,
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let spec = found.typed("spec", &document.get_mut("spec").map(Value::take).unwrap_or_default())?;
    Some(Body::ExtensionService(Arc::new(spec)))
}
