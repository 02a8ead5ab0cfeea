//! BackendConfigPolicy: how back ends are spoken to.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::backend_balance::LoadBalancer;
use super::backend_http::{CommonHttp, Http1, Http2};
use super::keepalive::TcpKeepalive;
use super::policy::{self, Policy};
use crate::apis::Body;
use crate::apis::decode::Found;

/// What a BackendConfigPolicy says, its targets apart.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendConfigSpec {
    /// How long connecting may take.
    pub connect_timeout: Option<Arc<str>>,
    /// How names are looked up.
    pub dns: Option<Dns>,
    /// How much is buffered for a connection.
    pub per_connection_buffer_limit_bytes: Option<i64>,
    /// How connections are kept open.
    pub tcp_keepalive: Option<TcpKeepalive>,
    /// HTTP of any version.
    pub common_http_protocol_options: Option<CommonHttp>,
    /// HTTP/1.1.
    pub http1_protocol_options: Option<Http1>,
    /// HTTP/2.
    pub http2_protocol_options: Option<Http2>,
    /// TLS.
    pub tls: Option<Tls>,
    /// How endpoints are chosen.
    pub load_balancer: Option<LoadBalancer>,
    /// How endpoints are tried.
    pub health_check: Option<HealthCheck>,
    /// When endpoints are left out for what they answer.
    pub outlier_detection: Option<OutlierDetection>,
    /// How much may be under way.
    pub circuit_breakers: Option<CircuitBreakers>,
    /// The PROXY protocol.
    pub upstream_proxy_protocol: Option<UpstreamProxyProtocol>,
}

/// A BackendConfigPolicy.
pub type BackendConfigPolicy = Policy<BackendConfigSpec>;

/// How names are looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dns {
    /// By how much the time between two varies.
    pub jitter: Option<Arc<str>>,
    /// The time between two.
    pub refresh_rate: Option<Arc<str>>,
    /// Does what the answer says come first?
    #[serde(rename = "respectTTL")]
    pub respect_ttl: Option<bool>,
}

/// TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// A Secret with certificate, key and authorities.
    pub secret_ref: Option<Named>,
    /// Files of the proxy.
    pub files: Option<Files>,
    /// `System`.
    #[serde(rename = "wellKnownCACertificates")]
    pub well_known: Option<Arc<str>>,
    /// Is any certificate taken?
    pub insecure_skip_verify: Option<bool>,
    /// The name that is asked for.
    pub sni: Option<Arc<str>>,
    /// The names of which the certificate must have one.
    pub verify_subject_alt_names: Option<Vec<Arc<str>>>,
    /// Versions and algorithms.
    pub parameters: Option<Parameters>,
    /// What is agreed on.
    pub alpn_protocols: Option<Vec<Arc<str>>>,
    /// May the back end ask for a new handshake?
    pub allow_renegotiation: Option<bool>,
    /// Is the back end shown no certificate?
    #[serde(rename = "simpleTLS")]
    pub simple: Option<bool>,
}

/// An object of the policy's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// Its name.
    #[serde(default)]
    pub name: Arc<str>,
}

/// Files of the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Files {
    /// Authorities.
    #[serde(rename = "rootCA")]
    pub root_ca: Option<Arc<str>>,
    /// Certificate.
    pub tls_certificate: Option<Arc<str>>,
    /// Key.
    pub tls_key: Option<Arc<str>>,
}

/// Versions and algorithms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Parameters {
    /// Cipher suites.
    pub cipher_suites: Option<Vec<Arc<str>>>,
    /// Curves.
    pub ecdh_curves: Option<Vec<Arc<str>>>,
    /// The highest version.
    pub max_version: Option<Arc<str>>,
    /// The lowest version.
    pub min_version: Option<Arc<str>>,
    /// Algorithms of signatures.
    pub signature_algorithms: Option<Vec<Arc<str>>>,
}

/// How endpoints are tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// Time that an answer may take.
    pub timeout: Arc<str>,
    /// Time between two.
    pub interval: Arc<str>,
    /// So many failures make one unhealthy.
    pub unhealthy_threshold: i64,
    /// So many successes make one healthy again.
    pub healthy_threshold: i64,
    /// Over HTTP.
    pub http: Option<HttpCheck>,
    /// By gRPC's own question.
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

/// A check by gRPC's own question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcCheck {
    /// Service.
    pub service_name: Option<Arc<str>>,
    /// Host.
    pub authority: Option<Arc<str>>,
}

/// When endpoints are left out for what they answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutlierDetection {
    /// Time between two looks.
    pub interval: Option<Arc<str>>,
    /// How long one is left out.
    pub base_ejection_time: Option<Arc<str>>,
    /// The largest share that is left out.
    pub max_ejection_percent: Option<i64>,
    /// Answers of 5xx in a row.
    #[serde(rename = "consecutive5xx")]
    pub consecutive_5xx: Option<i64>,
    /// How often that counts.
    #[serde(rename = "enforcingConsecutive5xx")]
    pub enforcing_consecutive_5xx: Option<i64>,
    /// Are failures to get an answer counted apart?
    pub split_external_local_origin_errors: Option<bool>,
    /// Such failures in a row.
    pub consecutive_local_origin_failure: Option<i64>,
    /// How often that counts.
    pub enforcing_consecutive_local_origin_failure: Option<i64>,
}

/// How much may be under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CircuitBreakers {
    /// Connections.
    pub max_connections: Option<i64>,
    /// Requests that wait for a connection.
    pub max_pending_requests: Option<i64>,
    /// Requests.
    pub max_requests: Option<i64>,
    /// Requests that are tried again.
    pub max_retries: Option<i64>,
    /// Is it counted how much is left?
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
    /// The fields that are set.
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
