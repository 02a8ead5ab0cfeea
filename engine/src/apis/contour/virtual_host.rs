//! What makes an HTTPProxy a root: its host, TLS, and policies for all of its routes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::guard::{AuthorizationServer, JwtProvider};
use super::policy::{CorsPolicy, HealthCheckPolicy, IpFilterPolicy, LoadBalancerPolicy, RateLimitPolicy};
use super::route::Service;

/// `spec.virtualhost`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualHost {
    /// The host; `*.` stands for one label.
    #[serde(default)]
    pub fqdn: Arc<str>,
    /// TLS.
    pub tls: Option<Tls>,
    /// Who is asked whether requests may pass.
    pub authorization: Option<AuthorizationServer>,
    /// Cross-origin requests.
    pub cors_policy: Option<CorsPolicy>,
    /// How often requests may come.
    pub rate_limit_policy: Option<RateLimitPolicy>,
    /// Who makes tokens.
    pub jwt_providers: Option<Vec<JwtProvider>>,
    /// Who may come in.
    pub ip_allow_policy: Option<Vec<IpFilterPolicy>>,
    /// Who may not.
    pub ip_deny_policy: Option<Vec<IpFilterPolicy>>,
}

/// TLS of a host.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// The Secret of the certificate, as `name` or `namespace/name`.
    pub secret_name: Option<Arc<str>>,
    /// `1.2` or `1.3`; 1.2 where unset.
    pub minimum_protocol_version: Option<Arc<str>>,
    /// `1.2` or `1.3`; 1.3 where unset.
    pub maximum_protocol_version: Option<Arc<str>>,
    /// Does TLS end at the back end?
    pub passthrough: Option<bool>,
    /// Which certificates clients must show.
    pub client_validation: Option<DownstreamValidation>,
    /// Is the host served to clients that name none?
    pub enable_fallback_certificate: Option<bool>,
}

/// Which certificates clients must show.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DownstreamValidation {
    /// The Secret of the authorities (`ca.crt`).
    pub ca_secret: Option<Arc<str>>,
    /// Are certificates asked for and not checked?
    pub skip_client_cert_validation: Option<bool>,
    /// What back ends are told of them.
    pub forward_client_certificate: Option<ClientCertificateDetails>,
    /// The Secret of the revocations (`crl.pem`).
    pub crl_secret: Option<Arc<str>>,
    /// Are only the clients' own certificates looked up there?
    pub crl_only_verify_leaf_cert: Option<bool>,
    /// May clients come without one?
    pub optional_client_certificate: Option<bool>,
}

/// What back ends are told of a client's certificate.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertificateDetails {
    /// Its subject.
    pub subject: Option<bool>,
    /// All of it.
    pub cert: Option<bool>,
    /// With its chain.
    pub chain: Option<bool>,
    /// Its DNS names.
    pub dns: Option<bool>,
    /// Its URI.
    pub uri: Option<bool>,
}

/// `spec.tcpproxy`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TcpProxy {
    /// How endpoints are chosen.
    pub load_balancer_policy: Option<LoadBalancerPolicy>,
    /// Where connections go.
    pub services: Option<Vec<Service>>,
    /// The HTTPProxy whose `tcpproxy` counts.
    pub include: Option<TcpProxyInclude>,
    /// The same under its old name.
    pub includes: Option<TcpProxyInclude>,
    /// How endpoints are checked.
    pub health_check_policy: Option<HealthCheckPolicy>,
}

/// An HTTPProxy whose `tcpproxy` counts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TcpProxyInclude {
    /// Name.
    pub name: Arc<str>,
    /// Namespace, that of the includer where unset.
    pub namespace: Option<Arc<str>>,
}
