//! BackendConfigPolicy: how back ends are spoken to. Its fields are known by name; none is served yet.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::policy::{self, Policy};
use crate::apis::Body;
use crate::apis::decode::Found;

/// What a BackendConfigPolicy says, its targets apart.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendConfigSpec {
    /// How long connecting may take.
    pub connect_timeout: Option<Value>,
    /// How names are looked up.
    pub dns: Option<Value>,
    /// How much is buffered for a connection.
    pub per_connection_buffer_limit_bytes: Option<Value>,
    /// How connections are kept open.
    pub tcp_keepalive: Option<Value>,
    /// HTTP of any version.
    pub common_http_protocol_options: Option<Value>,
    /// HTTP/1.1.
    pub http1_protocol_options: Option<Value>,
    /// HTTP/2.
    pub http2_protocol_options: Option<Value>,
    /// TLS.
    pub tls: Option<Value>,
    /// How endpoints are chosen.
    pub load_balancer: Option<Value>,
    /// How endpoints are tried.
    pub health_check: Option<Value>,
    /// When endpoints are left out for what they answer.
    pub outlier_detection: Option<Value>,
    /// How much may be under way.
    pub circuit_breakers: Option<Value>,
    /// The PROXY protocol.
    pub upstream_proxy_protocol: Option<Value>,
}

/// What comes of it.
const CLOSED: &str = "what uses the back end in question is answered 500";

/// A BackendConfigPolicy.
pub type BackendConfigPolicy = Policy<BackendConfigSpec>;

impl BackendConfigSpec {
    /// The fields that are set.
    pub fn set(&self) -> impl Iterator<Item = &'static str> {
        [
            ("connectTimeout", &self.connect_timeout),
            ("dns", &self.dns),
            ("perConnectionBufferLimitBytes", &self.per_connection_buffer_limit_bytes),
            ("tcpKeepalive", &self.tcp_keepalive),
            ("commonHttpProtocolOptions", &self.common_http_protocol_options),
            ("http1ProtocolOptions", &self.http1_protocol_options),
            ("http2ProtocolOptions", &self.http2_protocol_options),
            ("tls", &self.tls),
            ("loadBalancer", &self.load_balancer),
            ("healthCheck", &self.health_check),
            ("outlierDetection", &self.outlier_detection),
            ("circuitBreakers", &self.circuit_breakers),
            ("upstreamProxyProtocol", &self.upstream_proxy_protocol),
        ]
        .into_iter()
        .filter_map(|(name, value)| value.is_some().then_some(name))
    }
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let policy: BackendConfigPolicy = policy::read(&mut document, found);
    for field in policy.spec.iter().flat_map(BackendConfigSpec::set) {
        found.invalid(
            format!("spec.{field}"),
            format!("{field} cannot be served by this version of Holdfast; {CLOSED}"),
        );
    }
    Some(Body::BackendConfigPolicy(Arc::new(policy)))
}
