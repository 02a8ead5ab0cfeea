//! Who is asked before requests pass: authorization servers, makers of tokens, global rate limits.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::condition::HeaderCondition;
use super::policy::AuthorizationPolicy;
use super::route::UpstreamValidation;

/// Who is asked whether requests may pass.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationServer {
    /// The ExtensionService.
    pub extension_ref: Option<ExtensionReference>,
    /// `grpc` or `http`.
    pub service_type: Option<Arc<str>>,
    /// How it is asked over HTTP.
    pub http_settings: Option<HttpAuthorization>,
    /// What holds for all routes.
    pub auth_policy: Option<AuthorizationPolicy>,
    /// How long an answer may take.
    pub response_timeout: Option<Arc<str>>,
    /// Do requests pass where there is no answer?
    pub fail_open: Option<bool>,
    /// Is it told the body?
    pub with_request_body: Option<RequestBody>,
}

/// A reference to an ExtensionService.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionReference {
    /// Group and version.
    pub api_version: Option<Arc<str>>,
    /// Namespace.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Option<Arc<str>>,
}

/// How an authorization server is asked over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpAuthorization {
    /// What stands before the path.
    pub path_prefix: Option<Arc<str>>,
    /// Headers that it is told.
    pub allowed_authorization_headers: Option<Vec<AllowedHeader>>,
    /// Headers of its answer that back ends are told.
    pub allowed_upstream_headers: Option<Vec<AllowedHeader>>,
}

/// Headers by their names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedHeader {
    /// The name is this.
    pub exact: Option<Arc<str>>,
    /// It begins with this.
    pub prefix: Option<Arc<str>>,
    /// It ends with this.
    pub suffix: Option<Arc<str>>,
    /// It contains this.
    pub contains: Option<Arc<str>>,
    /// Upper and lower case are the same.
    pub ignore_case: Option<bool>,
}

/// How much of the body is told.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestBody {
    /// How many bytes.
    pub max_request_bytes: Option<i64>,
    /// Also where there are more?
    pub allow_partial_message: Option<bool>,
    /// As bytes and not as text?
    pub pack_as_bytes: Option<bool>,
}

/// Who makes tokens.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtProvider {
    /// Name.
    #[serde(default)]
    pub name: Arc<str>,
    /// Are its tokens asked for where a route says nothing?
    pub default: Option<bool>,
    /// The issuer that stands in tokens.
    pub issuer: Option<Arc<str>>,
    /// The audiences of which one stands in tokens.
    pub audiences: Option<Vec<Arc<str>>>,
    /// Where its keys are.
    #[serde(rename = "remoteJWKS")]
    pub remote_jwks: Option<RemoteJwks>,
    /// Its keys.
    #[serde(rename = "localJWKS")]
    pub local_jwks: Option<LocalJwks>,
    /// Is the token passed on?
    #[serde(rename = "forwardJWT")]
    pub forward_jwt: Option<bool>,
}

/// Where keys are.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteJwks {
    /// The address.
    pub uri: Option<Arc<str>>,
    /// What the certificate there must be.
    pub validation: Option<UpstreamValidation>,
    /// How long an answer may take.
    pub timeout: Option<Arc<str>>,
    /// How long keys are kept.
    pub cache_duration: Option<Arc<str>>,
    /// `auto`, `v4` or `v6`.
    pub dns_lookup_family: Option<Arc<str>>,
}

/// Keys in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalJwks {
    /// The Secret.
    pub secret_name: Option<Arc<str>>,
    /// The key in it.
    pub key: Option<Arc<str>>,
}

/// How often requests may come to all Envoys together.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GlobalRateLimitPolicy {
    /// There is no limit.
    pub disabled: Option<bool>,
    /// What requests are counted by.
    pub descriptors: Option<Vec<RateLimitDescriptor>>,
}

/// What requests are counted by.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitDescriptor {
    /// All of these together.
    pub entries: Option<Vec<RateLimitEntry>>,
}

/// A part of a descriptor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitEntry {
    /// A text.
    pub generic_key: Option<GenericKey>,
    /// A header.
    pub request_header: Option<CountedHeader>,
    /// Whether headers match.
    pub request_header_value_match: Option<CountedMatch>,
    /// The client's address.
    pub remote_address: Option<RemoteAddress>,
}

/// A text that requests are counted by.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GenericKey {
    /// Key.
    pub key: Option<Arc<str>>,
    /// Value.
    pub value: Option<Arc<str>>,
}

/// A header that requests are counted by.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CountedHeader {
    /// Its name.
    pub header_name: Option<Arc<str>>,
    /// Key.
    pub descriptor_key: Option<Arc<str>>,
}

/// Headers that must match.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CountedMatch {
    /// The headers.
    pub headers: Option<Vec<HeaderCondition>>,
    /// Must they?
    pub expect_match: Option<bool>,
    /// Value.
    pub value: Option<Arc<str>>,
}

/// The client's address.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct RemoteAddress {}
