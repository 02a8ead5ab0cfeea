//! TrafficPolicy: handling of the requests of Gateways, listeners and routes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::access::{Acl, ApiKeyAuth, BasicAuth, Rbac};
use super::headers::{HeaderModifiers, Transformation};
use super::policy::{self, Disable, Policy};
use super::traffic::{
    Buffer, Compression, Cors, Csrf, FaultInjection, InternalRedirect, RequestMirror, Retry, RouteTracing, Timeouts,
    UrlRewrite,
};
use crate::apis::Body;
use crate::apis::decode::Found;

/// Spec of a TrafficPolicy without its targets.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrafficSpec {
    /// Transformation of headers, bodies and metadata.
    pub transformation: Option<Transformation>,
    /// External processing: a service that may change requests and responses.
    pub ext_proc: Option<ExtProc>,
    /// External authorization.
    pub ext_auth: Option<ExtAuth>,
    /// Rate limits.
    pub rate_limit: Option<RateLimit>,
    /// Cross-origin requests (CORS).
    pub cors: Option<Cors>,
    /// CSRF protection.
    pub csrf: Option<Csrf>,
    /// Changes to headers.
    pub header_modifiers: Option<HeaderModifiers>,
    /// Settings of mirrored requests.
    pub request_mirror: Option<RequestMirror>,
    /// Whether the host is rewritten to the host name of the backend.
    pub auto_host_rewrite: Option<bool>,
    /// Buffering of whole requests before they are forwarded.
    pub buffer: Option<Buffer>,
    /// Time limits.
    pub timeouts: Option<Timeouts>,
    /// Retries.
    pub retry: Option<Retry>,
    /// Redirects of backends that Envoy follows.
    pub internal_redirect: Option<InternalRedirect>,
    /// RBAC: conditions under which requests are allowed or denied.
    pub rbac: Option<Rbac>,
    /// JWT authentication.
    pub jwt_auth: Option<ExtensionUse>,
    /// Rewrite of the path that backends receive.
    pub url_rewrite: Option<UrlRewrite>,
    /// Compression and decompression of bodies.
    pub compression: Option<Compression>,
    /// Basic authentication.
    pub basic_auth: Option<BasicAuth>,
    /// API key authentication.
    pub api_key_auth: Option<ApiKeyAuth>,
    /// OAuth2 login.
    pub oauth2: Option<ExtensionUse>,
    /// Tracing.
    pub tracing: Option<RouteTracing>,
    /// Fault injection.
    pub fault_injection: Option<FaultInjection>,
    /// Access control by client address.
    pub acl: Option<Acl>,
    /// Prefix of the names of statistics.
    pub stat_prefix: Option<Arc<str>>,
}

/// A reference to a GatewayExtension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionRef {
    /// Name.
    pub name: Arc<str>,
    /// Namespace, that of the policy where unset.
    pub namespace: Option<Arc<str>>,
}

/// The use of a GatewayExtension without further settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionUse {
    /// The extension.
    pub extension_ref: Option<ExtensionRef>,
    /// Disables the extension, whatever less specific policies specify.
    pub disable: Option<Disable>,
}

/// The use of an external authorization service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtAuth {
    /// The extension.
    pub extension_ref: Option<ExtensionRef>,
    /// Settings for sending the request body.
    pub with_request_body: Option<ExtAuthBufferSettings>,
    /// Additional context that is sent to the service.
    pub context_extensions: Option<BTreeMap<String, String>>,
    /// Disables external authorization, whatever less specific policies specify.
    pub disable: Option<Disable>,
}

/// Settings for sending a request body to a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtAuthBufferSettings {
    /// Maximum number of bytes that are sent.
    pub max_request_bytes: Option<i64>,
    /// Whether a part of the body is sent where the body is larger.
    pub allow_partial_message: Option<bool>,
    /// Whether the body is sent as bytes instead of text.
    pub pack_as_bytes: Option<bool>,
}

/// The use of an external processing service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtProc {
    /// The extension.
    pub extension_ref: Option<ExtensionRef>,
    /// Parts of requests and responses that are sent to the service.
    pub processing_mode: Option<ProcessingMode>,
    /// Disables external processing, whatever less specific policies specify.
    pub disable: Option<Disable>,
}

/// Parts of requests and responses that are sent to a processing service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessingMode {
    /// Request headers.
    pub request_header_mode: Option<Arc<str>>,
    /// Response headers.
    pub response_header_mode: Option<Arc<str>>,
    /// Request bodies.
    pub request_body_mode: Option<Arc<str>>,
    /// Response bodies.
    pub response_body_mode: Option<Arc<str>>,
    /// Request trailers.
    pub request_trailer_mode: Option<Arc<str>>,
    /// Response trailers.
    pub response_trailer_mode: Option<Arc<str>>,
}

/// Rate limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// Limit for each Envoy.
    pub local: Option<LocalRateLimit>,
    /// Limit for all Envoys together.
    pub global: Option<GlobalRateLimit>,
}

/// Rate limit for each Envoy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalRateLimit {
    /// The limit; none where unset.
    pub token_bucket: Option<TokenBucket>,
    /// Percentage of requests that are counted.
    pub percent_enabled: Option<i64>,
    /// Percentage of requests over the limit that are refused.
    pub percent_enforced: Option<i64>,
}

/// Token bucket; each request takes one token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenBucket {
    /// Maximum number of tokens.
    pub max_tokens: i64,
    /// Number of tokens that are added at a time, 1 where unset.
    pub tokens_per_fill: Option<i64>,
    /// Time between two additions.
    pub fill_interval: Arc<str>,
}

/// Rate limit for all Envoys together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GlobalRateLimit {
    /// Descriptors by which requests are counted.
    #[serde(default)]
    pub descriptors: Vec<Descriptor>,
    /// The service that counts.
    pub extension_ref: Option<ExtensionRef>,
}

/// A descriptor by which requests are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The entries, which must all match.
    #[serde(default)]
    pub entries: Vec<DescriptorEntry>,
}

/// An entry of a descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescriptorEntry {
    /// `Generic`, `Header`, `RemoteAddress` or `Path`.
    #[serde(rename = "type")]
    pub kind: Arc<str>,
    /// Of type `Generic`: a constant text.
    pub generic: Option<GenericEntry>,
    /// Of type `Header`: the name of the header.
    pub header: Option<Arc<str>>,
}

/// A constant text by which requests are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GenericEntry {
    /// Key.
    pub key: Arc<str>,
    /// Value.
    pub value: Arc<str>,
}

/// A TrafficPolicy.
pub type TrafficPolicy = Policy<TrafficSpec>;

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    Some(Body::TrafficPolicy(Arc::new(policy::read(&mut document, found))))
}
