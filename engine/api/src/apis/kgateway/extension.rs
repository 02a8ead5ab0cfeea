//! GatewayExtension: a service that Envoy calls for requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::backend::Local;
use super::policy::{self, Unread};
use super::traffic_policy::{ExtAuthBufferSettings, ProcessingMode};
use crate::apis::Body;
use crate::apis::decode::Found;
use crate::apis::gateway::references::BackendRef;

/// A GatewayExtension; one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayExtension {
    /// Type; has no effect.
    #[serde(rename = "type")]
    pub kind: Option<Arc<str>>,
    /// External authorization service.
    pub ext_auth: Option<ExtAuthProvider>,
    /// External processing service, which may change requests and responses.
    pub ext_proc: Option<ExtProcProvider>,
    /// Rate limit service.
    pub rate_limit: Option<RateLimitProvider>,
    /// JWT providers.
    pub jwt: Option<Jwt>,
    /// OAuth2 provider for user login.
    pub oauth2: Option<OAuth2>,
    /// Parts that could not be read.
    #[serde(skip)]
    pub unread: Vec<Unread>,
}

/// External authorization service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtAuthProvider {
    /// gRPC service.
    pub grpc_service: Option<GrpcService>,
    /// HTTP service.
    pub http_service: Option<HttpService>,
    /// Request headers that are sent to the service.
    pub headers_to_forward: Option<Vec<Arc<str>>>,
    /// Whether requests pass when the service does not answer.
    pub fail_open: Option<bool>,
    /// Whether the route is selected again after the answer.
    pub clear_route_cache: Option<bool>,
    /// Settings for sending the request body.
    pub with_request_body: Option<ExtAuthBufferSettings>,
    /// Response status when the service does not answer.
    pub status_on_error: Option<i64>,
    /// Prefix of the names of statistics.
    pub stat_prefix: Option<Arc<str>>,
}

/// A gRPC service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcService {
    /// Backend of the service.
    pub backend_ref: Option<BackendRef>,
    /// `:authority` of calls.
    pub authority: Option<Arc<str>>,
    /// Time limit for an answer.
    pub request_timeout: Option<Arc<str>>,
    /// Retries.
    pub retry: Option<ExtensionRetryPolicy>,
}

/// Retries of calls to a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionRetryPolicy {
    /// Number of retries.
    pub attempts: Option<i64>,
    /// Delays between retries.
    pub backoff: Option<Backoff>,
}

/// Exponential delays between retries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backoff {
    /// First delay.
    pub base_interval: Option<Arc<str>>,
    /// Maximum delay.
    pub max_interval: Option<Arc<str>>,
}

/// An HTTP service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpService {
    /// Backend of the service.
    pub backend_ref: Option<BackendRef>,
    /// Prefix that is added to the path.
    pub path_prefix: Option<Arc<str>>,
    /// Time limit for an answer.
    pub request_timeout: Option<Arc<str>>,
    /// Additional data of the authorization request.
    pub authorization_request: Option<AuthorizationRequest>,
    /// Parts of the answer that are forwarded.
    pub authorization_response: Option<AuthorizationResponse>,
    /// Retries.
    pub retry: Option<ExtensionRetryPolicy>,
}

/// Additional data of a request to an authorization service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationRequest {
    /// Headers to add.
    pub headers_to_add: Option<BTreeMap<String, String>>,
}

/// Parts of an answer of an authorization service that are forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationResponse {
    /// Headers that are forwarded to backends.
    pub headers_to_backend: Option<Vec<Arc<str>>>,
    /// Headers that are sent to clients of denied requests.
    pub headers_to_client: Option<Vec<Arc<str>>>,
    /// Headers that are sent to clients of allowed requests.
    pub headers_to_client_on_success: Option<Vec<Arc<str>>>,
}

/// External processing service, which may change requests and responses.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtProcProvider {
    /// The service.
    pub grpc_service: Option<GrpcService>,
    /// Whether requests pass when the service does not answer.
    pub fail_open: Option<bool>,
    /// Parts of requests and responses that are sent to the service.
    pub processing_mode: Option<ProcessingMode>,
    /// Whether the service may change the processing mode.
    pub allow_processing_mode_override: Option<bool>,
    /// Processing modes that the service may choose.
    pub allowed_processing_mode_overrides: Option<Vec<ProcessingMode>>,
    /// Time limit for an answer.
    pub message_timeout: Option<Arc<str>>,
    /// Maximum time limit that the service may request.
    pub max_message_timeout: Option<Arc<str>>,
    /// Prefix of the names of statistics.
    pub stat_prefix: Option<Arc<str>>,
    /// Whether the route is selected again: `FromResponse`, `Clear` or `Retain`.
    pub route_cache_action: Option<Arc<str>>,
    /// Metadata that is sent to the service.
    pub metadata_options: Option<MetadataOptions>,
    /// Request attributes that are sent to the service.
    pub request_attributes: Option<Vec<Arc<str>>>,
    /// Position in the filter chain.
    pub filter_stage: Option<FilterStage>,
}

/// Metadata that is sent to a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataOptions {
    /// Namespaces of the metadata.
    pub forwarding: Option<MetadataNamespaces>,
}

/// Namespaces of metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataNamespaces {
    /// Namespaces of typed metadata.
    pub typed: Option<Vec<Arc<str>>>,
    /// Namespaces of untyped metadata.
    pub untyped: Option<Vec<Arc<str>>>,
}

/// A position in the filter chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FilterStage {
    /// The stage.
    pub stage: Option<Arc<str>>,
    /// `Before`, `During` or `After` it.
    pub predicate: Option<Arc<str>>,
    /// Order within the position.
    pub weight: Option<i64>,
}

/// Rate limit service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitProvider {
    /// The service.
    pub grpc_service: Option<GrpcService>,
    /// Domain of the limits.
    pub domain: Option<Arc<str>>,
    /// Whether requests pass when the service does not answer.
    pub fail_open: Option<bool>,
    /// Time limit for an answer.
    pub timeout: Option<Arc<str>>,
    /// Rate limit headers in responses: `Off` or `DraftVersion03`.
    pub x_rate_limit_headers: Option<Arc<str>>,
}

/// JWT providers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Jwt {
    /// `Strict`, or `AllowMissing` where requests without a token are allowed.
    pub validation_mode: Option<Arc<str>>,
    /// The providers; a token of at least one of them is required.
    #[serde(default)]
    pub providers: Vec<ExtensionJwtProvider>,
}

/// A JWT provider.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionJwtProvider {
    /// Name.
    pub name: Arc<str>,
    /// Expected issuer in tokens.
    pub issuer: Option<Arc<str>>,
    /// Accepted audiences; a token must have at least one of them.
    pub audiences: Option<Vec<Arc<str>>>,
    /// Place of the token in requests.
    pub token_source: Option<TokenSource>,
    /// Claims that are forwarded to backends as headers.
    pub claims_to_headers: Option<Vec<ClaimToHeader>>,
    /// The keys (JWKS).
    pub jwks: Option<Jwks>,
    /// Whether the token is forwarded to backends.
    pub forward_token: Option<bool>,
}

/// Place of a token in requests; one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenSource {
    /// A header.
    pub header: Option<TokenHeader>,
    /// A query parameter.
    pub query_parameter: Option<Arc<str>>,
}

/// A header with a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenHeader {
    /// Name.
    pub header: Option<Arc<str>>,
    /// Text before the token.
    pub prefix: Option<Arc<str>>,
}

/// A claim that is forwarded to backends as a header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimToHeader {
    /// The claim.
    pub name: Arc<str>,
    /// The header.
    pub header: Arc<str>,
}

/// Keys (JWKS); one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Jwks {
    /// Keys in the cluster.
    pub local: Option<ExtensionLocalJwks>,
    /// Keys that Envoy fetches.
    pub remote: Option<ExtensionRemoteJwks>,
}

/// Keys in the cluster; one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionLocalJwks {
    /// Keys in the GatewayExtension itself.
    pub inline: Option<Arc<str>>,
    /// Keys in a ConfigMap.
    pub config_map_ref: Option<Local>,
}

/// Keys that Envoy fetches.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionRemoteJwks {
    /// URL of the keys.
    pub url: Arc<str>,
    /// Backend that serves the keys.
    pub backend_ref: Option<BackendRef>,
    /// Time for which keys are cached.
    pub cache_duration: Option<Arc<str>>,
    /// Settings for fetching keys before the first request.
    pub async_fetch: Option<AsyncFetch>,
    /// Retries.
    pub retry_policy: Option<JwksRetry>,
}

/// Settings for fetching keys before the first request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AsyncFetch {
    /// Whether listeners open before the keys are fetched.
    pub fast_listener: Option<bool>,
    /// Time until a failed fetch is repeated.
    pub failed_refetch_duration: Option<Arc<str>>,
}

/// Retries of fetching keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JwksRetry {
    /// Number of retries.
    pub num_retries: Option<i64>,
    /// Delays between retries.
    pub back_off: Option<Backoff>,
}

/// OAuth2 provider for user login.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2 {
    /// Backend of the provider.
    pub backend_ref: Option<BackendRef>,
    /// Authorization endpoint, to which users are redirected.
    pub authorization_endpoint: Option<Arc<str>>,
    /// Token endpoint.
    pub token_endpoint: Option<Arc<str>>,
    /// URI to which the provider redirects users after the login.
    #[serde(rename = "redirectURI")]
    pub redirect_uri: Option<Arc<str>>,
    /// Path for logout.
    pub logout_path: Option<Arc<str>>,
    /// Whether the access token is forwarded to backends.
    pub forward_access_token: Option<bool>,
    /// Requested scopes.
    pub scopes: Option<Vec<Arc<str>>>,
    /// Client credentials.
    pub credentials: Option<OAuth2Credentials>,
    /// URI of the issuer, under which the endpoints are published.
    #[serde(rename = "issuerURI")]
    pub issuer_uri: Option<Arc<str>>,
    /// Endpoint that ends sessions.
    pub end_session_endpoint: Option<Arc<str>>,
    /// Cookies.
    pub cookies: Option<OAuth2Cookies>,
    /// Verification of tokens.
    pub jwt: Option<OAuth2Jwt>,
    /// Requests that are denied instead of being redirected to the provider.
    pub deny_redirect: Option<DenyRedirect>,
}

/// Client credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2Credentials {
    /// Client ID.
    #[serde(rename = "clientID")]
    pub client_id: Arc<str>,
    /// Client secret.
    pub client_secret_ref: Option<Local>,
}

/// Cookies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2Cookies {
    /// Domain of the cookies.
    pub domain: Option<Arc<str>>,
    /// Names of the cookies.
    pub names: Option<OAuth2CookieNames>,
    /// `Lax`, `Strict` or `None`.
    pub same_site: Option<Arc<str>>,
    /// Whether no cookie is set for the access token.
    pub disable_access_token_set_cookie: Option<bool>,
    /// Whether no cookie is set for the ID token.
    #[serde(rename = "disableIDTokenSetCookie")]
    pub disable_id_token_set_cookie: Option<bool>,
    /// Whether no cookie is set for the refresh token.
    pub disable_refresh_token_set_cookie: Option<bool>,
}

/// Names of cookies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2CookieNames {
    /// Name of the cookie with the access token.
    pub access_token: Option<Arc<str>>,
    /// Name of the cookie with the ID token.
    pub id_token: Option<Arc<str>>,
}

/// Verification of tokens.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2Jwt {
    /// Verification of the access token.
    pub access_token: Option<OAuth2Token>,
    /// Verification of the ID token.
    pub id_token: Option<OAuth2Token>,
    /// URI of the keys (JWKS).
    #[serde(rename = "jwksURI")]
    pub jwks_uri: Option<Arc<str>>,
    /// Backend that serves the keys.
    pub jwks_backend_ref: Option<BackendRef>,
}

/// Verification of one token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2Token {
    /// Accepted audiences; the token must have at least one of them.
    pub audiences: Option<Vec<Arc<str>>>,
    /// Claims that are forwarded to backends as headers.
    pub claims_to_headers: Option<Vec<ClaimToHeader>>,
}

/// Requests that are denied instead of being redirected to the provider.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DenyRedirect {
    /// Conditions on headers.
    #[serde(default)]
    pub headers: Vec<DeniedHeader>,
}

/// A condition on a request header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeniedHeader {
    /// Name.
    pub name: Arc<str>,
    /// `Exact` or `RegularExpression`.
    #[serde(rename = "type")]
    pub kind: Option<Arc<str>>,
    /// Value.
    pub value: Arc<str>,
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let before = found.faults.len();
    let spec = document.get_mut("spec").map(Value::take).unwrap_or_default();
    let extension: GatewayExtension = found.typed("spec", &spec)?;
    let unread = policy::whole_or_not(found, before);
    Some(Body::GatewayExtension(Arc::new(GatewayExtension { unread, ..extension })))
}
