//! ListenerPolicy: how listeners speak to clients. Its fields are known by name; none is served yet.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::policy::{self, Policy, Unread};
use crate::apis::Body;
use crate::apis::decode::Found;

/// What a ListenerPolicy says, its targets apart.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSpec {
    /// For every port.
    pub default: Option<ListenerConfig>,
    /// For single ports.
    pub per_port: Option<Vec<PortConfig>>,
}

/// How the listeners of one port speak to clients.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortConfig {
    /// The port.
    pub port: i64,
    /// How.
    pub listener: ListenerConfig,
}

/// How listeners speak to clients.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerConfig {
    /// Clients must show certificates.
    pub client_certificate_validation: Option<Value>,
    /// HTTP.
    pub http_settings: Option<Value>,
    /// How much is buffered for a connection.
    pub per_connection_buffer_limit_bytes: Option<Value>,
    /// The PROXY protocol.
    pub proxy_protocol: Option<Value>,
    /// How connections are kept open.
    pub tcp_keepalive: Option<Value>,
    /// How long a handshake may take.
    pub transport_socket_connect_timeout: Option<Value>,
}

/// A ListenerPolicy.
pub type ListenerPolicy = Policy<ListenerSpec>;

impl ListenerConfig {
    /// The fields that are set.
    fn set(&self) -> impl Iterator<Item = &'static str> {
        [
            ("clientCertificateValidation", &self.client_certificate_validation),
            ("httpSettings", &self.http_settings),
            ("perConnectionBufferLimitBytes", &self.per_connection_buffer_limit_bytes),
            ("proxyProtocol", &self.proxy_protocol),
            ("tcpKeepalive", &self.tcp_keepalive),
            ("transportSocketConnectTimeout", &self.transport_socket_connect_timeout),
        ]
        .into_iter()
        .filter_map(|(name, value)| value.is_some().then_some(name))
    }
}

impl ListenerSpec {
    /// The fields that are set, below `spec`.
    pub fn set(&self) -> Vec<String> {
        let default = self.default.iter().flat_map(ListenerConfig::set).map(|name| format!("default.{name}"));
        let ports = self.per_port.iter().flatten().enumerate();
        let ports = ports
            .flat_map(|(index, port)| port.listener.set().map(move |name| format!("perPort[{index}].listener.{name}")));
        default.chain(ports).collect()
    }
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let mut policy: ListenerPolicy = policy::read(&mut document, found);
    for field in policy.spec.iter().flat_map(ListenerSpec::set).collect::<Vec<_>>() {
        let message = format!("{field} cannot be served by this version of Holdfast; what the policy is for is closed");
        let field = format!("spec.{field}");
        found.invalid(&field, &message);
        policy.unread.push(Unread { field, message });
    }
    Some(Body::ListenerPolicy(Arc::new(policy)))
}
