//! ListenerPolicy: how listeners speak to clients.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::http_settings::HttpSettings;
use super::keepalive::TcpKeepalive;
use super::policy::{self, Policy};
use crate::apis::Body;
use crate::apis::decode::Found;

/// What a ListenerPolicy says, its targets apart.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSpec {
    /// For every port.
    pub default: Option<DefaultConfig>,
    /// For single ports, in the place of what is said for every port.
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
pub struct DefaultConfig {
    /// Clients must show certificates, whatever their port.
    pub client_certificate_validation: Option<ClientCertificateValidation>,
    /// HTTP.
    pub http_settings: Option<HttpSettings>,
    /// How much is buffered for a connection.
    pub per_connection_buffer_limit_bytes: Option<i64>,
    /// The PROXY protocol.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// How connections are kept open.
    pub tcp_keepalive: Option<TcpKeepalive>,
    /// How long a handshake may take.
    pub transport_socket_connect_timeout: Option<Arc<str>>,
}

/// The same for one port, but for the certificates of clients.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerConfig {
    /// HTTP.
    pub http_settings: Option<HttpSettings>,
    /// How much is buffered for a connection.
    pub per_connection_buffer_limit_bytes: Option<i64>,
    /// The PROXY protocol.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// How connections are kept open.
    pub tcp_keepalive: Option<TcpKeepalive>,
    /// How long a handshake may take.
    pub transport_socket_connect_timeout: Option<Arc<str>>,
}

/// Certificates that clients show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertificateValidation {
    /// `Require` or `Optional`.
    pub mode: Arc<str>,
    /// Where the authorities are.
    #[serde(default)]
    pub ca_certificate_refs: Vec<ObjectReference>,
}

/// An object that is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// Group.
    #[serde(default)]
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Namespace, the policy's own where unset.
    pub namespace: Option<Arc<str>>,
}

/// The PROXY protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyProtocol {
    /// Are connections taken that do not begin with it?
    pub allow_requests_without_proxy_protocol: Option<bool>,
}

/// A ListenerPolicy.
pub type ListenerPolicy = Policy<ListenerSpec>;

impl DefaultConfig {
    /// What can be said for a single port as well.
    pub fn listener(&self) -> ListenerConfig {
        ListenerConfig {
            http_settings: self.http_settings.clone(),
            per_connection_buffer_limit_bytes: self.per_connection_buffer_limit_bytes,
            proxy_protocol: self.proxy_protocol.clone(),
            tcp_keepalive: self.tcp_keepalive.clone(),
            transport_socket_connect_timeout: self.transport_socket_connect_timeout.clone(),
        }
    }
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    Some(Body::ListenerPolicy(Arc::new(policy::read(&mut document, found))))
}
