//! Services that guard requests: authorization servers, JWT providers, global rate limits.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::condition::HeaderCondition;
use super::policy::AuthorizationPolicy;
use super::route::UpstreamValidation;

/// External authorization server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationServer {
    /// The ExtensionService.
    pub extension_ref: Option<ExtensionReference>,
    /// `grpc` or `http`.
    pub service_type: Option<Arc<str>>,
    /// Settings of authorization over HTTP.
    pub http_settings: Option<HttpAuthorization>,
    /// Default for all routes.
    pub auth_policy: Option<AuthorizationPolicy>,
    /// Time limit for an answer.
    pub response_timeout: Option<Arc<str>>,
    /// Whether requests pass when the server does not answer.
    pub fail_open: Option<bool>,
    /// Settings for sending the request body to the server; unset: the body is not sent.
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

/// Settings of authorization over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpAuthorization {
    /// Prefix that is added to the path.
    pub path_prefix: Option<Arc<str>>,
    /// Request headers that are sent to the server.
    pub allowed_authorization_headers: Option<Vec<AllowedHeader>>,
    /// Headers of the server's answer that are forwarded to backends.
    pub allowed_upstream_headers: Option<Vec<AllowedHeader>>,
}

/// A selector of headers by name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedHeader {
    /// The name equals this text.
    pub exact: Option<Arc<str>>,
    /// The name begins with this text.
    pub prefix: Option<Arc<str>>,
    /// The name ends with this text.
    pub suffix: Option<Arc<str>>,
    /// The name contains this text.
    pub contains: Option<Arc<str>>,
    /// Whether upper and lower case are equal.
    pub ignore_case: Option<bool>,
}

/// Settings for sending the request body to an authorization server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestBody {
    /// Maximum number of bytes that are sent.
    pub max_request_bytes: Option<i64>,
    /// Whether a part of the body is sent where the body is larger.
    pub allow_partial_message: Option<bool>,
    /// Whether the body is sent as bytes instead of text.
    pub pack_as_bytes: Option<bool>,
}

/// A JWT provider.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtProvider {
    /// Name.
    #[serde(default)]
    pub name: Arc<str>,
    /// Whether tokens of this provider are required on routes without a policy of their own.
    pub default: Option<bool>,
    /// Expected issuer in tokens.
    pub issuer: Option<Arc<str>>,
    /// Accepted audiences; a token must have at least one of them.
    pub audiences: Option<Vec<Arc<str>>>,
    /// Address of the keys.
    #[serde(rename = "remoteJWKS")]
    pub remote_jwks: Option<RemoteJwks>,
    /// The keys, in a Secret.
    #[serde(rename = "localJWKS")]
    pub local_jwks: Option<LocalJwks>,
    /// Whether the token is forwarded to backends.
    #[serde(rename = "forwardJWT")]
    pub forward_jwt: Option<bool>,
}

/// A remote key set (JWKS).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteJwks {
    /// URI of the key set.
    pub uri: Option<Arc<str>>,
    /// Requirements on the certificate of the server.
    pub validation: Option<UpstreamValidation>,
    /// Time limit for an answer.
    pub timeout: Option<Arc<str>>,
    /// Time for which keys are cached.
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
    /// The key in the Secret.
    pub key: Option<Arc<str>>,
}

/// Global rate limit: one limit for all Envoys together.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GlobalRateLimitPolicy {
    /// Whether the rate limit is off.
    pub disabled: Option<bool>,
    /// Descriptors by which requests are counted.
    pub descriptors: Option<Vec<RateLimitDescriptor>>,
}

/// A descriptor by which requests are counted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitDescriptor {
    /// The entries, which must all match.
    pub entries: Option<Vec<RateLimitEntry>>,
}

/// An entry of a descriptor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitEntry {
    /// A constant text.
    pub generic_key: Option<GenericKey>,
    /// The value of a header.
    pub request_header: Option<CountedHeader>,
    /// A match of headers.
    pub request_header_value_match: Option<CountedMatch>,
    /// The address of the client.
    pub remote_address: Option<RemoteAddress>,
}

/// A constant text by which requests are counted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GenericKey {
    /// Key.
    pub key: Option<Arc<str>>,
    /// Value.
    pub value: Option<Arc<str>>,
}

/// A header by which requests are counted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CountedHeader {
    /// Name of the header.
    pub header_name: Option<Arc<str>>,
    /// Key of the entry.
    pub descriptor_key: Option<Arc<str>>,
}

/// A match of headers by which requests are counted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CountedMatch {
    /// The headers.
    pub headers: Option<Vec<HeaderCondition>>,
    /// Whether the headers must match or must not match.
    pub expect_match: Option<bool>,
    /// Value.
    pub value: Option<Arc<str>>,
}

/// The address of the client.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct RemoteAddress {}
