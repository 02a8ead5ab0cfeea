//! Routes.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto>

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier as DataSpecifier;
use envoy_types::pb::envoy::config::route::v3 as envoy;
use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use envoy_types::pb::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier;
use envoy_types::pb::envoy::config::route::v3::route::Action as EnvoyAction;
use envoy_types::pb::envoy::config::route::v3::route_action::{
    ClusterNotFoundResponseCode, ClusterSpecifier, HostRewriteSpecifier, UpgradeConfig,
};
use envoy_types::pb::envoy::config::route::v3::route_match::{GrpcRouteMatchOptions, PathSpecifier};
use envoy_types::pb::envoy::config::route::v3::weighted_cluster::{ClusterWeight, cluster_weight};
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};
use envoy_types::pb::google::protobuf::{Any, BoolValue, UInt32Value};
use prost::Message;

use super::{any, duration, names, per_filter};
use crate::features::redirect::{ListenerContext, Redirect, Scheme};
use crate::features::rewrite::{EnvoyPathRewrite, Rewrite};
use crate::features::share::RouteShare;
use crate::features::tracing::TracingSettings;
use crate::features::{cookies, filters, ip_filter, local_rate_limit, session};
use crate::model::{
    Action, FixedResponse, Forward, Like, Match, MatchedPart, NamedMatch, PathMatch, Route, ValueMatch, WeightedBackend,
};

/// Name of the CORS filter, in the filter chain and as the key of settings for each route.
pub const CORS_FILTER: &str = "envoy.filters.http.cors";

/// `Route.direct_response`, and `DirectResponseAction.body_format`.
const DIRECT_RESPONSE: u32 = 7;
const BODY_FORMAT: u32 = 3;
/// `Route.typed_per_filter_config`.
const PER_FILTER_FIELD: u32 = 13;

/// Encodes a route for a listener.
pub fn encode(route: &Route, listener: ListenerContext) -> Vec<u8> {
    let encoded = envoy::Route {
        name: route.name.to_string(),
        r#match: Some(envoy::RouteMatch {
            runtime_fraction: route.share.and_then(RouteShare::encode),
            ..route_match(&route.matches)
        }),
        action: Some(action(route, listener)),
        request_headers_to_add: route.request_headers.to_add(),
        request_headers_to_remove: route.request_headers.to_remove(),
        response_headers_to_add: route.response_headers.to_add(),
        response_headers_to_remove: route.response_headers.to_remove(),
        stat_prefix: route.stat_prefix.as_deref().unwrap_or_default().to_owned(),
        tracing: route.tracing.as_ref().map(TracingSettings::encode),
        ..Default::default()
    };
    let mut bytes = encoded.encode_to_vec();
    if let (Action::Respond(response), Some(EnvoyAction::DirectResponse(_))) = (&route.action, &encoded.action) {
        put_format(response, &mut bytes);
    }
    let cors = route.cors.iter().map(|cors| (CORS_FILTER, any(&cors.encode())));
    let ip_filter = route.ip_filter.iter().map(|filter| (ip_filter::FILTER, any(&filter.encode())));
    let limit = route.rate_limit.iter().map(|limit| (local_rate_limit::FILTER, any(&limit.encode())));
    let cookies = rewrites_cookies(route).then(|| (cookies::FILTER, any(&cookies::encode(&route.cookies))));
    let session = session_of(route, listener).map(|config| (session::FILTER, config));
    let own = cors.chain(limit).chain(ip_filter).chain(cookies).chain(session);
    for (name, config) in own.chain(filters::encoded(&route.filters)) {
        per_filter(PER_FILTER_FIELD, name, &config, &mut bytes);
    }
    for (name, config) in route.guards_at(listener).iter().flat_map(|guards| guards.encode()) {
        per_filter(PER_FILTER_FIELD, &name, &config, &mut bytes);
    }
    bytes
}

/// Checks whether the whole route has rules for cookies.
fn rewrites_cookies(route: &Route) -> bool {
    matches!(route.action, Action::Forward(_)) && !route.cookies.is_empty()
}

/// Returns the settings of the sessions of a route that forwards requests.
fn session_of(route: &Route, listener: ListenerContext) -> Option<Any> {
    let Action::Forward(forward) = &route.action else { return None };
    let session = forward.session.as_ref().filter(|_| route.secure_port_at(listener).is_none())?;
    Some(any(&session.encode(&route.matches.path, listener.https)))
}

fn route_match(matches: &Match) -> envoy::RouteMatch {
    let method = matches.method.iter().map(|method| envoy::HeaderMatcher {
        name: ":method".into(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(exact(method))),
        ..Default::default()
    });
    envoy::RouteMatch {
        path_specifier: Some(path(&matches.path)),
        headers: method.chain(matches.headers.iter().map(header)).collect(),
        query_parameters: matches.query.iter().map(query).collect(),
        grpc: matches.grpc.then(GrpcRouteMatchOptions::default),
        ..Default::default()
    }
}

fn path(path: &PathMatch) -> PathSpecifier {
    match path {
        PathMatch::Exact(path) => PathSpecifier::Path(path.to_string()),
        PathMatch::Text(text) => PathSpecifier::Prefix(text.to_string()),
        PathMatch::Regex(pattern) => PathSpecifier::SafeRegex(regex(pattern)),
        PathMatch::Prefix(prefix) => match prefix.trim_end_matches('/') {
            "" => PathSpecifier::Prefix("/".into()),
            segments => PathSpecifier::PathSeparatedPrefix(segments.to_owned()),
        },
    }
}

/// Returns the match of a header.
pub fn header(header: &NamedMatch) -> envoy::HeaderMatcher {
    envoy::HeaderMatcher {
        name: header.name.to_string(),
        header_match_specifier: Some(match string(&header.value) {
            Some(matcher) => HeaderMatchSpecifier::StringMatch(matcher),
            None => HeaderMatchSpecifier::PresentMatch(true),
        }),
        invert_match: header.inverted,
        treat_missing_header_as_empty: header.missing_is_empty,
    }
}

fn query(parameter: &NamedMatch) -> envoy::QueryParameterMatcher {
    envoy::QueryParameterMatcher {
        name: parameter.name.to_string(),
        query_parameter_match_specifier: Some(match string(&parameter.value) {
            Some(matcher) => QueryParameterMatchSpecifier::StringMatch(matcher),
            None => QueryParameterMatchSpecifier::PresentMatch(true),
        }),
    }
}

/// Returns the match of a value; `None` if any value matches.
fn string(value: &ValueMatch) -> Option<StringMatcher> {
    match value {
        ValueMatch::Exact(text) => Some(exact(text)),
        ValueMatch::Regex(pattern) => Some(by_regex(pattern)),
        ValueMatch::Present => None,
        ValueMatch::Like(part) => Some(like(part)),
    }
}

/// Returns the match of a part of a text.
pub fn like(Like { part, text, ignore_case }: &Like) -> StringMatcher {
    let text = text.to_string();
    let pattern = match part {
        MatchedPart::Whole => MatchPattern::Exact(text),
        MatchedPart::Prefix => MatchPattern::Prefix(text),
        MatchedPart::Suffix => MatchPattern::Suffix(text),
        MatchedPart::Contains => MatchPattern::Contains(text),
    };
    StringMatcher { match_pattern: Some(pattern), ignore_case: *ignore_case }
}

fn exact(text: &str) -> StringMatcher {
    StringMatcher { match_pattern: Some(MatchPattern::Exact(text.to_owned())), ..Default::default() }
}

/// Returns a matcher of the whole text by a regular expression.
pub(crate) fn by_regex(pattern: &str) -> StringMatcher {
    StringMatcher { match_pattern: Some(MatchPattern::SafeRegex(regex(pattern))), ..Default::default() }
}

/// Returns a regular expression.
pub(crate) fn regex(pattern: &str) -> RegexMatcher {
    RegexMatcher { regex: pattern.to_owned(), ..Default::default() }
}

fn action(route: &Route, listener: ListenerContext) -> EnvoyAction {
    if let Some(port) = route.secure_port_at(listener) {
        let (scheme, port) = (Some(Scheme::Https), Some(port));
        let redirect = Redirect { scheme, port, host: None, path: None, status: 301 };
        return EnvoyAction::Redirect(redirect.encode(&route.matches.path, listener));
    }
    match &route.action {
        Action::Forward(forward) => EnvoyAction::Route(route_action(forward, route)),
        Action::Redirect(redirect) => EnvoyAction::Redirect(redirect.encode(&route.matches.path, listener)),
        Action::Respond(response) => EnvoyAction::DirectResponse(direct_response(response)),
    }
}

/// Appends the body format of a direct response: occurrences of one message field are merged.
fn put_format(response: &FixedResponse, bytes: &mut Vec<u8>) {
    let Some(format) = &response.format else { return };
    let mut action = Vec::new();
    prost::encoding::bytes::encode(BODY_FORMAT, &format.encode(), &mut action);
    prost::encoding::bytes::encode(DIRECT_RESPONSE, &action, bytes);
}

/// Returns a route that gives every request the same response.
pub fn everything(response: &FixedResponse) -> Bytes {
    for_everything(response).encode_to_vec().into()
}

/// See [`everything`].
pub(crate) fn for_everything(response: &FixedResponse) -> envoy::Route {
    envoy::Route {
        r#match: Some(envoy::RouteMatch {
            path_specifier: Some(PathSpecifier::Prefix("/".into())),
            ..Default::default()
        }),
        action: Some(EnvoyAction::DirectResponse(direct_response(response))),
        ..Default::default()
    }
}

/// Returns a direct response without body format.
pub(crate) fn direct_response(response: &FixedResponse) -> envoy::DirectResponseAction {
    envoy::DirectResponseAction {
        status: response.status.into(),
        body: (!response.body.is_empty()).then(|| DataSource {
            specifier: Some(DataSpecifier::InlineString(response.body.to_string())),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn route_action(forward: &Forward, Route { matches: matched, share, .. }: &Route) -> envoy::RouteAction {
    // A missing cluster means a missing backend. Gateway API requires 500 for it, and UNAVAILABLE for gRPC calls,
    // which Envoy derives from 503.
    let not_found = if matched.grpc {
        ClusterNotFoundResponseCode::ServiceUnavailable
    } else {
        ClusterNotFoundResponseCode::InternalServerError
    };
    let mut action = envoy::RouteAction {
        cluster_not_found_response_code: not_found.into(),
        cluster_specifier: Some(clusters(&forward.backends)),
        request_mirror_policies: forward.mirrors.iter().map(|mirror| mirror.encode(*share)).collect(),
        host_rewrite_specifier: host_rewrite(&forward.rewrite),
        // Envoy's default would end every request after 15 s; zero means no limit.
        timeout: Some(duration(forward.timeouts.request.unwrap_or_default())),
        retry_policy: forward.timeouts.backend_request.filter(|limit| !limit.is_zero()).map(|limit| {
            envoy::RetryPolicy {
                num_retries: Some(UInt32Value { value: 0 }),
                per_try_timeout: Some(duration(limit)),
                ..Default::default()
            }
        }),
        idle_timeout: forward.timeouts.idle.map(duration),
        hash_policy: forward.hashed.iter().map(crate::features::hash::Hashed::encode).collect(),
        internal_redirect_policy: forward
            .internal_redirect
            .as_ref()
            .map(crate::features::internal_redirect::FollowedRedirects::encode),
        upgrade_configs: forward.no_websockets.then(no_websockets).into_iter().collect(),
        ..Default::default()
    };
    if let Some(retry) = &forward.retry {
        action.retry_policy = Some(retry.encode());
    }
    match forward.rewrite.path.as_ref().map(|rewrite| rewrite.encode(&matched.path)) {
        Some(EnvoyPathRewrite::Prefix(prefix)) => action.prefix_rewrite = prefix,
        Some(EnvoyPathRewrite::Regex(regex)) => action.regex_rewrite = Some(regex),
        None => {}
    }
    action
}

fn host_rewrite(rewrite: &Rewrite) -> Option<HostRewriteSpecifier> {
    match (&rewrite.host, &rewrite.host_from) {
        (Some(host), _) => Some(HostRewriteSpecifier::HostRewriteLiteral(host.to_string())),
        (None, Some(header)) => Some(HostRewriteSpecifier::HostRewriteHeader(header.to_string())),
        (None, None) => rewrite.auto_host.then_some(HostRewriteSpecifier::AutoHostRewrite(BoolValue { value: true })),
    }
}

/// Listeners allow WebSocket upgrades; this route does not.
fn no_websockets() -> UpgradeConfig {
    let enabled = Some(BoolValue { value: false });
    UpgradeConfig { upgrade_type: "websocket".into(), enabled, ..Default::default() }
}

fn clusters(backends: &[WeightedBackend]) -> ClusterSpecifier {
    if let [only] = backends
        && only.request_headers.is_empty()
        && only.response_headers.is_empty()
        && only.host.is_none()
        && only.cookies.is_empty()
    {
        return ClusterSpecifier::Cluster(cluster(only));
    }
    ClusterSpecifier::WeightedClusters(envoy::WeightedCluster {
        clusters: backends
            .iter()
            .map(|backend| ClusterWeight {
                name: cluster(backend),
                weight: Some(UInt32Value { value: backend.weight }),
                request_headers_to_add: backend.request_headers.to_add(),
                request_headers_to_remove: backend.request_headers.to_remove(),
                response_headers_to_add: backend.response_headers.to_add(),
                response_headers_to_remove: backend.response_headers.to_remove(),
                host_rewrite_specifier: backend
                    .host
                    .as_ref()
                    .map(|host| cluster_weight::HostRewriteSpecifier::HostRewriteLiteral(host.to_string())),
                // At most one entry: the order of several entries is not defined.
                typed_per_filter_config: (!backend.cookies.is_empty())
                    .then(|| (cookies::FILTER.to_owned(), any(&cookies::encode(&backend.cookies))))
                    .into_iter()
                    .collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    })
}

/// Returns the name of the cluster of a backend.
pub fn cluster(backend: &WeightedBackend) -> String {
    backend.backend.as_ref().map_or_else(|| names::MISSING_BACKEND.to_owned(), names::cluster)
}
