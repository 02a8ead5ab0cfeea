//! ListenerPolicy: connections between listeners and clients.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::http_settings::HttpSettings;
use super::keepalive::TcpKeepalive;
use super::policy::{self, Policy};
use crate::apis::Body;
use crate::apis::decode::Found;

/// Spec of a ListenerPolicy without its targets.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSpec {
    /// Settings for every port.
    pub default: Option<DefaultConfig>,
    /// Settings for single ports, which replace those for every port.
    pub per_port: Option<Vec<PortConfig>>,
}

/// Settings of the listeners of one port.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortConfig {
    /// The port.
    pub port: i64,
    /// The settings.
    pub listener: ListenerConfig,
}

/// Settings of listeners.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DefaultConfig {
    /// Validation of client certificates, at every port.
    pub client_certificate_validation: Option<ClientCertificateValidation>,
    /// HTTP settings.
    pub http_settings: Option<HttpSettings>,
    /// Limit of the buffers of a connection, in bytes.
    pub per_connection_buffer_limit_bytes: Option<i64>,
    /// The PROXY protocol.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// TCP keepalive.
    pub tcp_keepalive: Option<TcpKeepalive>,
    /// Time limit for the TLS handshake.
    pub transport_socket_connect_timeout: Option<Arc<str>>,
}

/// Settings of listeners at one port: those of [`DefaultConfig`] without the validation of client certificates.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerConfig {
    /// HTTP settings.
    pub http_settings: Option<HttpSettings>,
    /// Limit of the buffers of a connection, in bytes.
    pub per_connection_buffer_limit_bytes: Option<i64>,
    /// The PROXY protocol.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// TCP keepalive.
    pub tcp_keepalive: Option<TcpKeepalive>,
    /// Time limit for the TLS handshake.
    pub transport_socket_connect_timeout: Option<Arc<str>>,
}

/// Validation of client certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertificateValidation {
    /// `Require` or `Optional`.
    pub mode: Arc<str>,
    /// References to certificate authorities.
    #[serde(default)]
    pub ca_certificate_refs: Vec<ObjectReference>,
}

/// A reference to an object.
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
    /// Namespace, that of the policy where unset.
    pub namespace: Option<Arc<str>>,
}

/// The PROXY protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyProtocol {
    /// Whether connections without the PROXY protocol are accepted.
    pub allow_requests_without_proxy_protocol: Option<bool>,
}

/// A ListenerPolicy.
pub type ListenerPolicy = Policy<ListenerSpec>;

impl DefaultConfig {
    /// Returns the settings that can also be set for a single port.
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
