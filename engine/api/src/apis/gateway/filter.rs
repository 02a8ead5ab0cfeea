//! Filters of the rules and of the backends of HTTPRoutes and GRPCRoutes, with the fields of the experimental channel.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#httproutefilter>

use std::sync::Arc;

use gateway_api::httproutes::{
    HttpRouteRulesFiltersCors, HttpRouteRulesFiltersExtensionRef, HttpRouteRulesFiltersRequestHeaderModifier,
    HttpRouteRulesFiltersRequestMirror, HttpRouteRulesFiltersRequestMirrorBackendRef,
    HttpRouteRulesFiltersRequestRedirect, HttpRouteRulesFiltersResponseHeaderModifier, HttpRouteRulesFiltersUrlRewrite,
};
use serde::{Deserialize, Serialize};

/// A filter. The field that belongs to its type must be set, and no other: each field is in an allocation of its own, so
/// that a filter does not have the size of all of them.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteFilter {
    /// CORS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<Box<HttpRouteRulesFiltersCors>>,
    /// A reference to a filter of an implementation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension_ref: Option<Box<HttpRouteRulesFiltersExtensionRef>>,
    /// External authorization, a field of the experimental channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_auth: Option<Box<ExternalAuth>>,
    /// Header changes of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_header_modifier: Option<Box<HttpRouteRulesFiltersRequestHeaderModifier>>,
    /// Copies of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_mirror: Option<Box<HttpRouteRulesFiltersRequestMirror>>,
    /// A redirect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_redirect: Option<Box<HttpRouteRulesFiltersRequestRedirect>>,
    /// Header changes of responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_header_modifier: Option<Box<HttpRouteRulesFiltersResponseHeaderModifier>>,
    /// The type.
    pub r#type: FilterType,
    /// A rewrite of host and path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_rewrite: Option<Box<HttpRouteRulesFiltersUrlRewrite>>,
}

/// The type of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum FilterType {
    /// `requestHeaderModifier`.
    RequestHeaderModifier,
    /// `responseHeaderModifier`.
    ResponseHeaderModifier,
    /// `requestMirror`.
    RequestMirror,
    /// `requestRedirect`.
    RequestRedirect,
    /// `urlRewrite`.
    #[serde(rename = "URLRewrite")]
    UrlRewrite,
    /// `extensionRef`.
    ExtensionRef,
    /// `cors`.
    #[serde(rename = "CORS")]
    Cors,
    /// `externalAuth`.
    ExternalAuth,
}

/// External authorization of the requests of a rule.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuth {
    /// `GRPC` or `HTTP`.
    pub protocol: Option<Arc<str>>,
    /// The authorization server.
    pub backend_ref: Option<HttpRouteRulesFiltersRequestMirrorBackendRef>,
    /// Options of a server over gRPC.
    pub grpc: Option<ExternalAuthGrpc>,
    /// Options of a server over HTTP.
    pub http: Option<ExternalAuthHttp>,
    /// The part of the request body that the server receives.
    pub forward_body: Option<ForwardBody>,
}

/// Options of an authorization server over gRPC.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuthGrpc {
    /// The request headers that the server receives; all where empty.
    pub allowed_headers: Option<Vec<Arc<str>>>,
}

/// Options of an authorization server over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuthHttp {
    /// Prefix of the path in requests to the server.
    pub path: Option<Arc<str>>,
    /// Further request headers that the server receives.
    pub allowed_headers: Option<Vec<Arc<str>>>,
    /// The headers of the server's response that backends receive; all where empty.
    pub allowed_response_headers: Option<Vec<Arc<str>>>,
}

/// The part of a request body that an authorization server receives.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardBody {
    /// Maximum size of a body in bytes, at most 65535; no body is forwarded where unset or 0.
    pub max_size: Option<i64>,
}
