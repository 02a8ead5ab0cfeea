//! BackendConfigPolicy: connections to backends.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::backend_balance::LoadBalancer;
use super::backend_http::{CommonHttp, Http1, Http2};
use super::keepalive::TcpKeepalive;
use super::policy::{self, Policy};
use crate::apis::Body;
use crate::apis::decode::Found;

/// Spec of a BackendConfigPolicy without its targets.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendConfigSpec {
    /// Time limit for connecting.
    pub connect_timeout: Option<Arc<str>>,
    /// DNS lookups.
    pub dns: Option<Dns>,
    /// Limit of the buffers of a connection, in bytes.
    pub per_connection_buffer_limit_bytes: Option<i64>,
    /// TCP keepalive.
    pub tcp_keepalive: Option<TcpKeepalive>,
    /// Settings for any version of HTTP.
    pub common_http_protocol_options: Option<CommonHttp>,
    /// HTTP/1.1.
    pub http1_protocol_options: Option<Http1>,
    /// HTTP/2.
    pub http2_protocol_options: Option<Http2>,
    /// TLS.
    pub tls: Option<BackendConfigTls>,
    /// Load balancing.
    pub load_balancer: Option<LoadBalancer>,
    /// Active health checks of endpoints.
    pub health_check: Option<HealthCheck>,
    /// Outlier detection: ejection of endpoints because of their responses.
    pub outlier_detection: Option<OutlierDetection>,
    /// Limits on concurrent connections and requests.
    pub circuit_breakers: Option<BackendCircuitBreakers>,
    /// The PROXY protocol.
    pub upstream_proxy_protocol: Option<UpstreamProxyProtocol>,
}

/// A BackendConfigPolicy.
pub type BackendConfigPolicy = Policy<BackendConfigSpec>;

/// DNS lookups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dns {
    /// Random variation of the time between two lookups.
    pub jitter: Option<Arc<str>>,
    /// Time between two lookups.
    pub refresh_rate: Option<Arc<str>>,
    /// Whether the TTL of an answer takes precedence over the refresh rate.
    #[serde(rename = "respectTTL")]
    pub respect_ttl: Option<bool>,
}

/// TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendConfigTls {
    /// A Secret with certificate, key and certificate authorities.
    pub secret_ref: Option<Named>,
    /// Files in the file system of the Envoy.
    pub files: Option<Files>,
    /// `System`: the certificate authorities of the system.
    #[serde(rename = "wellKnownCACertificates")]
    pub well_known: Option<Arc<str>>,
    /// Whether any certificate is accepted.
    pub insecure_skip_verify: Option<bool>,
    /// Server name (SNI).
    pub sni: Option<Arc<str>>,
    /// Accepted names; the certificate must have at least one of them.
    pub verify_subject_alt_names: Option<Vec<Arc<str>>>,
    /// TLS versions and algorithms.
    pub parameters: Option<Parameters>,
    /// Protocols for ALPN.
    pub alpn_protocols: Option<Vec<Arc<str>>>,
    /// Whether the backend may start a renegotiation.
    pub allow_renegotiation: Option<bool>,
    /// Whether Envoy presents no client certificate.
    #[serde(rename = "simpleTLS")]
    pub simple: Option<bool>,
}

/// A reference to an object in the namespace of the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// Name of the object.
    #[serde(default)]
    pub name: Arc<str>,
}

/// Files in the file system of the Envoy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Files {
    /// Certificate authorities.
    #[serde(rename = "rootCA")]
    pub root_ca: Option<Arc<str>>,
    /// Certificate.
    pub tls_certificate: Option<Arc<str>>,
    /// Key.
    pub tls_key: Option<Arc<str>>,
}

/// TLS versions and algorithms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Parameters {
    /// Cipher suites.
    pub cipher_suites: Option<Vec<Arc<str>>>,
    /// Curves.
    pub ecdh_curves: Option<Vec<Arc<str>>>,
    /// Maximum version.
    pub max_version: Option<Arc<str>>,
    /// Minimum version.
    pub min_version: Option<Arc<str>>,
    /// Signature algorithms.
    pub signature_algorithms: Option<Vec<Arc<str>>>,
}

/// Active health checks of endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// Time limit for an answer.
    pub timeout: Arc<str>,
    /// Time between two checks.
    pub interval: Arc<str>,
    /// Number of failures that make an endpoint unhealthy.
    pub unhealthy_threshold: i64,
    /// Number of successes that make an endpoint healthy again.
    pub healthy_threshold: i64,
    /// Check over HTTP.
    pub http: Option<HttpCheck>,
    /// Check by the health protocol of gRPC.
    pub grpc: Option<GrpcCheck>,
}

/// A check over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpCheck {
    /// Host.
    pub host: Option<Arc<str>>,
    /// Path.
    pub path: Arc<str>,
    /// Method.
    pub method: Option<Arc<str>>,
}

/// A check by the health protocol of gRPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcCheck {
    /// Service.
    pub service_name: Option<Arc<str>>,
    /// Host.
    pub authority: Option<Arc<str>>,
}

/// Outlier detection: ejection of endpoints because of their responses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutlierDetection {
    /// Time between two evaluations.
    pub interval: Option<Arc<str>>,
    /// Time for which an endpoint is ejected.
    pub base_ejection_time: Option<Arc<str>>,
    /// Maximum percentage of endpoints that are ejected.
    pub max_ejection_percent: Option<i64>,
    /// Number of consecutive 5xx responses that eject an endpoint.
    #[serde(rename = "consecutive5xx")]
    pub consecutive_5xx: Option<i64>,
    /// Probability of an ejection for 5xx responses, in percent.
    #[serde(rename = "enforcingConsecutive5xx")]
    pub enforcing_consecutive_5xx: Option<i64>,
    /// Whether local failures, such as failures to connect, are counted separately.
    pub split_external_local_origin_errors: Option<bool>,
    /// Number of consecutive local failures that eject an endpoint.
    pub consecutive_local_origin_failure: Option<i64>,
    /// Probability of an ejection for local failures, in percent.
    pub enforcing_consecutive_local_origin_failure: Option<i64>,
}

/// Limits on concurrent connections and requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendCircuitBreakers {
    /// Connections.
    pub max_connections: Option<i64>,
    /// Requests that wait for a connection.
    pub max_pending_requests: Option<i64>,
    /// Requests.
    pub max_requests: Option<i64>,
    /// Concurrent retries.
    pub max_retries: Option<i64>,
    /// Whether Envoy reports the remaining capacity in its statistics.
    pub track_remaining: Option<bool>,
}

/// The PROXY protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamProxyProtocol {
    /// `V1` or `V2`.
    pub version: Option<Arc<str>>,
}

impl BackendConfigSpec {
    /// Returns the names of the fields that are set.
    pub fn set(&self) -> impl Iterator<Item = &'static str> {
        [
            ("connectTimeout", self.connect_timeout.is_some()),
            ("dns", self.dns.is_some()),
            ("perConnectionBufferLimitBytes", self.per_connection_buffer_limit_bytes.is_some()),
            ("tcpKeepalive", self.tcp_keepalive.is_some()),
            ("commonHttpProtocolOptions", self.common_http_protocol_options.is_some()),
            ("http1ProtocolOptions", self.http1_protocol_options.is_some()),
            ("http2ProtocolOptions", self.http2_protocol_options.is_some()),
            ("tls", self.tls.is_some()),
            ("loadBalancer", self.load_balancer.is_some()),
            ("healthCheck", self.health_check.is_some()),
            ("outlierDetection", self.outlier_detection.is_some()),
            ("circuitBreakers", self.circuit_breakers.is_some()),
            ("upstreamProxyProtocol", self.upstream_proxy_protocol.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, is_set)| is_set.then_some(name))
    }
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let policy: BackendConfigPolicy = policy::read(&mut document, found);
    Some(Body::BackendConfigPolicy(Arc::new(policy)))
}
