//! Virtual host of a root HTTPProxy: host name, TLS, and policies for all of its routes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::guard::{AuthorizationServer, JwtProvider};
use super::policy::{CorsPolicy, HealthCheckPolicy, IpFilterPolicy, LoadBalancerPolicy, RateLimitPolicy};
use super::route::ProxyService;

/// `spec.virtualhost`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualHost {
    /// The host name; `*.` matches one label.
    #[serde(default)]
    pub fqdn: Arc<str>,
    /// TLS.
    pub tls: Option<Tls>,
    /// External authorization server.
    pub authorization: Option<AuthorizationServer>,
    /// Cross-origin requests (CORS).
    pub cors_policy: Option<CorsPolicy>,
    /// Rate limits.
    pub rate_limit_policy: Option<RateLimitPolicy>,
    /// JWT providers.
    pub jwt_providers: Option<Vec<JwtProvider>>,
    /// Client addresses that are allowed.
    pub ip_allow_policy: Option<Vec<IpFilterPolicy>>,
    /// Client addresses that are denied.
    pub ip_deny_policy: Option<Vec<IpFilterPolicy>>,
}

/// TLS of a host.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// The Secret with the certificate, as `name` or `namespace/name`.
    pub secret_name: Option<Arc<str>>,
    /// `1.2` or `1.3`; 1.2 where unset.
    pub minimum_protocol_version: Option<Arc<str>>,
    /// `1.2` or `1.3`; 1.3 where unset.
    pub maximum_protocol_version: Option<Arc<str>>,
    /// Whether TLS is passed through to the backend.
    pub passthrough: Option<bool>,
    /// Validation of client certificates.
    pub client_validation: Option<DownstreamValidation>,
    /// Whether the host is served to clients that send no server name.
    pub enable_fallback_certificate: Option<bool>,
}

/// Validation of client certificates.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DownstreamValidation {
    /// The Secret with the certificate authorities (`ca.crt`).
    pub ca_secret: Option<Arc<str>>,
    /// Whether client certificates are requested but not verified.
    pub skip_client_cert_validation: Option<bool>,
    /// Fields of client certificates that are forwarded to backends.
    pub forward_client_certificate: Option<ClientCertificateDetails>,
    /// The Secret with the certificate revocation list (`crl.pem`).
    pub crl_secret: Option<Arc<str>>,
    /// Whether only the client's own certificate is checked against the revocation list.
    pub crl_only_verify_leaf_cert: Option<bool>,
    /// Whether clients may connect without a certificate.
    pub optional_client_certificate: Option<bool>,
}

/// Fields of a client certificate that are forwarded to backends.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertificateDetails {
    /// The subject.
    pub subject: Option<bool>,
    /// The whole certificate.
    pub cert: Option<bool>,
    /// The whole certificate chain.
    pub chain: Option<bool>,
    /// The DNS names.
    pub dns: Option<bool>,
    /// The URI.
    pub uri: Option<bool>,
}

/// `spec.tcpproxy`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TcpProxy {
    /// Load balancing policy.
    pub load_balancer_policy: Option<LoadBalancerPolicy>,
    /// Destinations of the connections.
    pub services: Option<Vec<ProxyService>>,
    /// The HTTPProxy with the `tcpproxy` that applies.
    pub include: Option<TcpProxyInclude>,
    /// The deprecated name of `include`.
    pub includes: Option<TcpProxyInclude>,
    /// Active health checks of endpoints.
    pub health_check_policy: Option<HealthCheckPolicy>,
}

/// A reference to an HTTPProxy with the `tcpproxy` that applies.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TcpProxyInclude {
    /// Name.
    pub name: Arc<str>,
    /// Namespace, that of the including HTTPProxy where unset.
    pub namespace: Option<Arc<str>>,
}
