//! TrafficPolicy: what is done to the requests of Gateways, listeners and routes.

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

/// What a TrafficPolicy says, its targets apart.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrafficSpec {
    /// Headers, body and metadata are rewritten.
    pub transformation: Option<Transformation>,
    /// Requests and responses are shown to a service that may change them.
    pub ext_proc: Option<ExtProc>,
    /// A service is asked whether requests may pass.
    pub ext_auth: Option<ExtAuth>,
    /// How often requests may come.
    pub rate_limit: Option<RateLimit>,
    /// Cross-origin requests.
    pub cors: Option<Cors>,
    /// Requests that other sites make in somebody's name.
    pub csrf: Option<Csrf>,
    /// Changes to headers.
    pub header_modifiers: Option<HeaderModifiers>,
    /// How copies of requests are sent.
    pub request_mirror: Option<RequestMirror>,
    /// Back ends see their own name as the host.
    pub auto_host_rewrite: Option<bool>,
    /// Requests are taken in whole before they go on.
    pub buffer: Option<Buffer>,
    /// Time limits.
    pub timeouts: Option<Timeouts>,
    /// When requests are tried again.
    pub retry: Option<Retry>,
    /// Redirects of back ends that are followed.
    pub internal_redirect: Option<InternalRedirect>,
    /// Conditions under which requests pass.
    pub rbac: Option<Rbac>,
    /// Tokens that requests must carry.
    pub jwt_auth: Option<ExtensionUse>,
    /// The path that back ends see.
    pub url_rewrite: Option<UrlRewrite>,
    /// Bodies are compressed and expanded.
    pub compression: Option<Compression>,
    /// User names and passwords.
    pub basic_auth: Option<BasicAuth>,
    /// Keys that requests must carry.
    pub api_key_auth: Option<ApiKeyAuth>,
    /// Users log in elsewhere.
    pub oauth2: Option<ExtensionUse>,
    /// What is recorded of requests.
    pub tracing: Option<RouteTracing>,
    /// Requests that are delayed or fail on purpose.
    pub fault_injection: Option<FaultInjection>,
    /// Who may come in, by address.
    pub acl: Option<Acl>,
    /// What the names of statistics begin with.
    pub stat_prefix: Option<Arc<str>>,
}

/// A GatewayExtension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionRef {
    /// Name.
    pub name: Arc<str>,
    /// Namespace, the policy's own where unset.
    pub namespace: Option<Arc<str>>,
}

/// The use of a GatewayExtension that needs nothing more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionUse {
    /// Which.
    pub extension_ref: Option<ExtensionRef>,
    /// None at all, whatever is said elsewhere.
    pub disable: Option<Disable>,
}

/// The use of an authorization service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtAuth {
    /// Which.
    pub extension_ref: Option<ExtensionRef>,
    /// How much of the body it is told.
    pub with_request_body: Option<RequestBody>,
    /// What else it is told.
    pub context_extensions: Option<BTreeMap<String, String>>,
    /// None at all, whatever is said elsewhere.
    pub disable: Option<Disable>,
}

/// How much of a body is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestBody {
    /// Bytes.
    pub max_request_bytes: Option<i64>,
    /// Also where there is more?
    pub allow_partial_message: Option<bool>,
    /// As bytes and not as text?
    pub pack_as_bytes: Option<bool>,
}

/// The use of a processing service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtProc {
    /// Which.
    pub extension_ref: Option<ExtensionRef>,
    /// What it is shown.
    pub processing_mode: Option<ProcessingMode>,
    /// None at all, whatever is said elsewhere.
    pub disable: Option<Disable>,
}

/// What a processing service is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessingMode {
    /// Headers of requests.
    pub request_header_mode: Option<Arc<str>>,
    /// Headers of responses.
    pub response_header_mode: Option<Arc<str>>,
    /// Bodies of requests.
    pub request_body_mode: Option<Arc<str>>,
    /// Bodies of responses.
    pub response_body_mode: Option<Arc<str>>,
    /// Trailers of requests.
    pub request_trailer_mode: Option<Arc<str>>,
    /// Trailers of responses.
    pub response_trailer_mode: Option<Arc<str>>,
}

/// How often requests may come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// To one Envoy.
    pub local: Option<LocalRateLimit>,
    /// To all of them.
    pub global: Option<GlobalRateLimit>,
}

/// How often requests may come to one Envoy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalRateLimit {
    /// The limit; none where unset.
    pub token_bucket: Option<TokenBucket>,
    /// The share of requests that are counted, in percent.
    pub percent_enabled: Option<i64>,
    /// The share of those over the limit that are refused, in percent.
    pub percent_enforced: Option<i64>,
}

/// Tokens, of which each request takes one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenBucket {
    /// The most that there are.
    pub max_tokens: i64,
    /// How many come at a time, 1 where unset.
    pub tokens_per_fill: Option<i64>,
    /// How often they come.
    pub fill_interval: Arc<str>,
}

/// How often requests may come to all Envoys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GlobalRateLimit {
    /// What they are counted by.
    #[serde(default)]
    pub descriptors: Vec<Descriptor>,
    /// The service that counts.
    pub extension_ref: Option<ExtensionRef>,
}

/// What requests are counted by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// All of these together.
    #[serde(default)]
    pub entries: Vec<DescriptorEntry>,
}

/// A part of a descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescriptorEntry {
    /// `Generic`, `Header`, `RemoteAddress` or `Path`.
    #[serde(rename = "type")]
    pub kind: Arc<str>,
    /// Of type `Generic`: a text.
    pub generic: Option<GenericEntry>,
    /// Of type `Header`: the name.
    pub header: Option<Arc<str>>,
}

/// A text that requests are counted by.
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
