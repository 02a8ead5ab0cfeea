//! GatewayExtension: a service that Envoy asks, or shows requests to.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::backend::Local;
use super::policy::{self, Unread};
use super::traffic_policy::{ProcessingMode, RequestBody};
use crate::apis::Body;
use crate::apis::decode::Found;
use crate::apis::gateway::references::BackendRef;

/// A GatewayExtension; one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayExtension {
    /// Of no effect.
    #[serde(rename = "type")]
    pub kind: Option<Arc<str>>,
    /// It is asked whether requests may pass.
    pub ext_auth: Option<ExtAuthProvider>,
    /// It may change requests and responses.
    pub ext_proc: Option<ExtProcProvider>,
    /// It counts requests.
    pub rate_limit: Option<RateLimitProvider>,
    /// Who makes tokens.
    pub jwt: Option<Jwt>,
    /// Where users log in.
    pub oauth2: Option<OAuth2>,
    /// What of it could not be read.
    #[serde(skip)]
    pub unread: Vec<Unread>,
}

/// It is asked whether requests may pass.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtAuthProvider {
    /// By gRPC.
    pub grpc_service: Option<GrpcService>,
    /// By HTTP.
    pub http_service: Option<HttpService>,
    /// Headers that it is told.
    pub headers_to_forward: Option<Vec<Arc<str>>>,
    /// Do requests pass where there is no answer?
    pub fail_open: Option<bool>,
    /// Is the route looked for again after its answer?
    pub clear_route_cache: Option<bool>,
    /// How much of the body it is told.
    pub with_request_body: Option<RequestBody>,
    /// The status where there is no answer.
    pub status_on_error: Option<i64>,
    /// What the names of its statistics begin with.
    pub stat_prefix: Option<Arc<str>>,
}

/// A service of gRPC.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcService {
    /// Where it is.
    pub backend_ref: Option<BackendRef>,
    /// The host that it is told.
    pub authority: Option<Arc<str>>,
    /// How long an answer may take.
    pub request_timeout: Option<Arc<str>>,
    /// When it is asked again.
    pub retry: Option<RetryPolicy>,
}

/// When a service is asked again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// How often.
    pub attempts: Option<i64>,
    /// The pauses.
    pub backoff: Option<Backoff>,
}

/// Pauses that grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backoff {
    /// The first.
    pub base_interval: Option<Arc<str>>,
    /// The longest.
    pub max_interval: Option<Arc<str>>,
}

/// A service of HTTP.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpService {
    /// Where it is.
    pub backend_ref: Option<BackendRef>,
    /// What stands before the path.
    pub path_prefix: Option<Arc<str>>,
    /// How long an answer may take.
    pub request_timeout: Option<Arc<str>>,
    /// What it is told besides.
    pub authorization_request: Option<AuthorizationRequest>,
    /// What of its answer is passed on.
    pub authorization_response: Option<AuthorizationResponse>,
    /// When it is asked again.
    pub retry: Option<RetryPolicy>,
}

/// What an authorization service is told besides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationRequest {
    /// Headers.
    pub headers_to_add: Option<BTreeMap<String, String>>,
}

/// What of the answer of an authorization service is passed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationResponse {
    /// Headers for back ends.
    pub headers_to_backend: Option<Vec<Arc<str>>>,
    /// Headers for clients who may not pass.
    pub headers_to_client: Option<Vec<Arc<str>>>,
    /// Headers for clients who may.
    pub headers_to_client_on_success: Option<Vec<Arc<str>>>,
}

/// It may change requests and responses.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtProcProvider {
    /// The service.
    pub grpc_service: Option<GrpcService>,
    /// Do requests pass where there is no answer?
    pub fail_open: Option<bool>,
    /// What it is shown.
    pub processing_mode: Option<ProcessingMode>,
    /// May it ask to be shown more or less?
    pub allow_processing_mode_override: Option<bool>,
    /// What it may ask for.
    pub allowed_processing_mode_overrides: Option<Vec<ProcessingMode>>,
    /// How long an answer may take.
    pub message_timeout: Option<Arc<str>>,
    /// The longest time that it may ask for.
    pub max_message_timeout: Option<Arc<str>>,
    /// What the names of its statistics begin with.
    pub stat_prefix: Option<Arc<str>>,
    /// Is the route looked for again: `FromResponse`, `Clear` or `Retain`.
    pub route_cache_action: Option<Arc<str>>,
    /// Metadata that it is told.
    pub metadata_options: Option<MetadataOptions>,
    /// Attributes of requests that it is told.
    pub request_attributes: Option<Vec<Arc<str>>>,
    /// Its place among filters.
    pub filter_stage: Option<FilterStage>,
}

/// Metadata that a service is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataOptions {
    /// Which.
    pub forwarding: Option<MetadataNamespaces>,
}

/// Namespaces of metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataNamespaces {
    /// With types.
    pub typed: Option<Vec<Arc<str>>>,
    /// Without.
    pub untyped: Option<Vec<Arc<str>>>,
}

/// A place among filters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FilterStage {
    /// The stage.
    pub stage: Option<Arc<str>>,
    /// `Before`, `During` or `After` it.
    pub predicate: Option<Arc<str>>,
    /// The place there.
    pub weight: Option<i64>,
}

/// It counts requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitProvider {
    /// The service.
    pub grpc_service: Option<GrpcService>,
    /// The domain that it counts in.
    pub domain: Option<Arc<str>>,
    /// Do requests pass where there is no answer?
    pub fail_open: Option<bool>,
    /// How long an answer may take.
    pub timeout: Option<Arc<str>>,
    /// Which headers clients are told: `Off` or `DraftVersion03`.
    pub x_rate_limit_headers: Option<Arc<str>>,
}

/// Who makes tokens.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Jwt {
    /// `Strict`, or `AllowMissing` where requests without a token pass.
    pub validation_mode: Option<Arc<str>>,
    /// Of whom one must have made it.
    #[serde(default)]
    pub providers: Vec<JwtProvider>,
}

/// Somebody who makes tokens.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtProvider {
    /// Name.
    pub name: Arc<str>,
    /// The issuer that stands in tokens.
    pub issuer: Option<Arc<str>>,
    /// The audiences of which one stands in tokens.
    pub audiences: Option<Vec<Arc<str>>>,
    /// Where in requests tokens are looked for.
    pub token_source: Option<TokenSource>,
    /// Claims that back ends see as headers.
    pub claims_to_headers: Option<Vec<ClaimToHeader>>,
    /// The keys.
    pub jwks: Option<Jwks>,
    /// Do back ends see the token?
    pub forward_token: Option<bool>,
}

/// Where in requests tokens are looked for; one of the fields.
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
    /// What stands before the token.
    pub prefix: Option<Arc<str>>,
}

/// A claim that back ends see as a header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimToHeader {
    /// The claim.
    pub name: Arc<str>,
    /// The header.
    pub header: Arc<str>,
}

/// Keys; one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Jwks {
    /// They are in the cluster.
    pub local: Option<LocalJwks>,
    /// They are fetched.
    pub remote: Option<RemoteJwks>,
}

/// Keys in the cluster; one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalJwks {
    /// Here.
    pub inline: Option<Arc<str>>,
    /// In a ConfigMap.
    pub config_map_ref: Option<Local>,
}

/// Keys that are fetched.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteJwks {
    /// From this address.
    pub url: Arc<str>,
    /// From this back end.
    pub backend_ref: Option<BackendRef>,
    /// How long they are kept.
    pub cache_duration: Option<Arc<str>>,
    /// Before the first request?
    pub async_fetch: Option<AsyncFetch>,
    /// When it is tried again.
    pub retry_policy: Option<JwksRetry>,
}

/// Keys are fetched before the first request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AsyncFetch {
    /// Do listeners open before they are there?
    pub fast_listener: Option<bool>,
    /// How long until it is tried again.
    pub failed_refetch_duration: Option<Arc<str>>,
}

/// When fetching keys is tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JwksRetry {
    /// How often.
    pub num_retries: Option<i64>,
    /// The pauses.
    pub back_off: Option<Backoff>,
}

/// Where users log in.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2 {
    /// The back end.
    pub backend_ref: Option<BackendRef>,
    /// Where users are sent.
    pub authorization_endpoint: Option<Arc<str>>,
    /// Where tokens come from.
    pub token_endpoint: Option<Arc<str>>,
    /// Where users are sent back to.
    #[serde(rename = "redirectURI")]
    pub redirect_uri: Option<Arc<str>>,
    /// Where users log out.
    pub logout_path: Option<Arc<str>>,
    /// Do back ends see the token?
    pub forward_access_token: Option<bool>,
    /// What is asked for.
    pub scopes: Option<Vec<Arc<str>>>,
    /// As whom the service is asked.
    pub credentials: Option<OAuth2Credentials>,
    /// Where the endpoints are published.
    #[serde(rename = "issuerURI")]
    pub issuer_uri: Option<Arc<str>>,
    /// Where sessions end.
    pub end_session_endpoint: Option<Arc<str>>,
    /// Cookies.
    pub cookies: Option<OAuth2Cookies>,
    /// How tokens are verified.
    pub jwt: Option<OAuth2Jwt>,
    /// Requests that are refused and not sent away.
    pub deny_redirect: Option<DenyRedirect>,
}

/// As whom the service is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2Credentials {
    /// Name.
    #[serde(rename = "clientID")]
    pub client_id: Arc<str>,
    /// Secret.
    pub client_secret_ref: Option<Local>,
}

/// Cookies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2Cookies {
    /// Their domain.
    pub domain: Option<Arc<str>>,
    /// Their names.
    pub names: Option<OAuth2CookieNames>,
    /// `Lax`, `Strict` or `None`.
    pub same_site: Option<Arc<str>>,
    /// None for the access token.
    pub disable_access_token_set_cookie: Option<bool>,
    /// None for the ID token.
    #[serde(rename = "disableIDTokenSetCookie")]
    pub disable_id_token_set_cookie: Option<bool>,
    /// None for the refresh token.
    pub disable_refresh_token_set_cookie: Option<bool>,
}

/// Names of cookies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2CookieNames {
    /// Of the access token.
    pub access_token: Option<Arc<str>>,
    /// Of the ID token.
    pub id_token: Option<Arc<str>>,
}

/// How tokens are verified.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2Jwt {
    /// The access token.
    pub access_token: Option<OAuth2Token>,
    /// The ID token.
    pub id_token: Option<OAuth2Token>,
    /// Where the keys are.
    #[serde(rename = "jwksURI")]
    pub jwks_uri: Option<Arc<str>>,
    /// From which back end.
    pub jwks_backend_ref: Option<BackendRef>,
}

/// How one token is verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2Token {
    /// The audiences of which one stands in it.
    pub audiences: Option<Vec<Arc<str>>>,
    /// Claims that back ends see as headers.
    pub claims_to_headers: Option<Vec<ClaimToHeader>>,
}

/// Requests that are refused and not sent away.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DenyRedirect {
    /// Those with these headers.
    #[serde(default)]
    pub headers: Vec<DeniedHeader>,
}

/// A header of requests.
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
