//! External authorization of requests, over gRPC or HTTP.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/ext_authz_filter>

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::common::mutation_rules::v3::HeaderMutationRules;
use envoy_types::pb::envoy::config::core::v3::{ApiVersion, HeaderValue};
use envoy_types::pb::envoy::extensions::filters::http::ext_authz::v3::ext_authz::Services;
use envoy_types::pb::envoy::extensions::filters::http::ext_authz::v3::{
    AuthorizationRequest, AuthorizationResponse, BufferSettings, CheckSettings, ExtAuthz, ExtAuthzPerRoute, HttpService,
};
use envoy_types::pb::envoy::r#type::matcher::v3::ListStringMatcher;
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use envoy_types::pb::google::protobuf::{Any, BoolValue};
use holdfast_graph::ObjectKey;
use holdfast_xds::Version;
use prost::{Message, Name};

use super::Flaw;
use super::call_options::{CallOptions, HTTP_FAILURES};
use super::remote::Remote;
use crate::encode::{self, names};
use crate::model::Like;

/// Maximum number of entries in the context of a route, and in a list of headers.
pub const ENTRIES_MAX: usize = 64;
/// Maximum number of bytes of a request body that an authorization server may receive.
pub const BODY_BYTES_MAX: u32 = 16 * 1024 * 1024;
/// Maximum length of a prefix of statistics, in bytes.
pub const STAT_PREFIX_BYTES_MAX: usize = 256;
/// The default timeout of a check: Envoy's own default.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_millis(200);
/// The status of requests that are rejected because the server did not answer.
const STATUS_ON_ERROR: i32 = 403;

/// Every name of a header except those of pseudo headers, as a regular expression.
const NO_PSEUDO_HEADER: &str = "[^:].*";
/// Headers that describe the body of a response, as a regular expression.
const CONTENT_HEADERS: &str = "content-.*";

/// Field number of `ExtAuthzPerRoute.check_settings`.
const CHECK_SETTINGS_FIELD: u32 = 2;
/// Field number of `CheckSettings.context_extensions`.
const CONTEXT_FIELD: u32 = 1;

/// An authorization server, as a filter of a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuthServer {
    /// The filter's name. It is derived from every setting that must not be confused with another value while chains
    /// change.
    pub name: Arc<str>,
    /// The objects that configure the server.
    pub owners: Vec<ObjectKey>,
    /// The service that Envoy calls.
    pub remote: Remote,
    /// Authority and retries.
    pub call_options: CallOptions,
    /// The protocol.
    pub spoken: AuthProtocol,
    /// Timeout of a check; zero disables it.
    pub timeout: Duration,
    /// Whether requests pass when the server does not answer.
    pub fail_open: bool,
    /// The part of the request body that the server receives.
    pub body: Option<BufferedBody>,
    /// Request headers that the server receives. Over gRPC, all where the list is empty; over HTTP, the listed ones and
    /// a few more.
    pub headers: Vec<Like>,
    /// The status of requests that are rejected because the server did not answer; 403 where unset.
    pub status_on_error: Option<u16>,
    /// Prefix of the filter's statistics.
    pub stat_prefix: Option<Arc<str>>,
}

/// The protocol of an authorization server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuthProtocol {
    /// gRPC.
    Grpc,
    /// HTTP.
    Http(OverHttp),
}

/// Options of an authorization server over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OverHttp {
    /// Prefix of the path in requests to the server.
    pub path_prefix: Arc<str>,
    /// Headers that are added to requests to the server; values may be Envoy format strings.
    pub added: Vec<(Arc<str>, Arc<str>)>,
    /// Headers of the server's response that are forwarded to backends.
    pub to_backend: Vec<Like>,
    /// Whether all headers of the server's response are forwarded to backends, except those that describe its message
    /// or its connection, and those that direct Envoy; then the list is empty.
    pub all_to_backend: bool,
    /// Headers of the server's response that clients receive when they are denied; all where the list is empty.
    pub to_client: Vec<Like>,
    /// Headers of the server's response that clients receive when they are allowed.
    pub to_client_on_success: Vec<Like>,
}

/// The part of a request body that a server receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BufferedBody {
    /// Maximum number of bytes; at least one.
    pub max: u32,
    /// Whether a larger body is sent in part; otherwise the request is rejected.
    pub partial: bool,
    /// Whether the body is sent as bytes instead of text.
    pub as_bytes: bool,
}

/// Per-route settings: requests of the route are authorized by a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteExtAuth {
    /// The authorization server.
    pub server: Arc<AuthServer>,
    /// Context of the route that the server receives; over gRPC only.
    pub context: BTreeMap<String, String>,
    /// The part of the request body that the server receives; the setting of the server's filter where unset.
    pub body: Option<BufferedBody>,
}

impl AuthServer {
    /// Returns the server with a name that is derived from all of its settings: no two servers have the same name, and
    /// all routes with the same settings share one filter.
    pub fn named_by_settings(self) -> Self {
        let settings = Version::of(&self.encode().encode_to_vec());
        Self { name: names::external_auth_filter(&settings.to_string()).into(), ..self }
    }

    /// Validates the settings; every unusable one is a flaw.
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let mut list = |field: &str, list: &[Like]| {
            if list.len() > ENTRIES_MAX {
                flaws.push(Flaw::new(field, format!("must have at most {ENTRIES_MAX} entries")));
            }
            for (index, like) in list.iter().enumerate().take(ENTRIES_MAX) {
                if let Err(fault) = holdfast_check::header::name(&like.text) {
                    flaws.push(Flaw::new(format!("{field}[{index}]"), fault));
                }
            }
        };
        list("headers", &self.headers);
        if let AuthProtocol::Http(OverHttp {
            path_prefix,
            to_backend,
            to_client,
            to_client_on_success,
            added,
            all_to_backend: _,
        }) = &self.spoken
        {
            list("toBackend", to_backend);
            list("toClient", to_client);
            list("toClientOnSuccess", to_client_on_success);
            if added.len() > ENTRIES_MAX {
                flaws.push(Flaw::new("added", format!("must have at most {ENTRIES_MAX} entries")));
            }
            if !path_prefix.is_empty()
                && let Err(fault) = holdfast_check::path::front(path_prefix)
            {
                flaws.push(Flaw::new("pathPrefix", fault));
            }
        }
        flaws.extend(self.body.iter().filter_map(|body| body.check("body")));
        flaws
    }

    /// Returns the Envoy configuration.
    pub fn encode(&self) -> ExtAuthz {
        let likes = |likes: &[Like]| {
            let patterns = likes.iter().map(encode::route::like).collect();
            (!likes.is_empty()).then_some(ListStringMatcher { patterns })
        };
        let services = match &self.spoken {
            AuthProtocol::Grpc => Services::GrpcService(self.call_options.grpc(&self.remote, Some(self.timeout))),
            AuthProtocol::Http(http) => Services::HttpService(HttpService {
                server_uri: Some(self.remote.http(format!("http://{}", self.remote.authority()), self.timeout)),
                path_prefix: http.path_prefix.to_string(),
                authorization_request: (!http.added.is_empty()).then(|| AuthorizationRequest {
                    headers_to_add: http
                        .added
                        .iter()
                        .map(|(name, value)| HeaderValue {
                            key: name.to_string(),
                            value: value.to_string(),
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                }),
                authorization_response: Some(AuthorizationResponse {
                    allowed_upstream_headers: match http.all_to_backend {
                        true => Some(ListStringMatcher { patterns: vec![encode::route::by_regex(NO_PSEUDO_HEADER)] }),
                        false => likes(&http.to_backend),
                    },
                    allowed_client_headers: likes(&http.to_client),
                    allowed_client_headers_on_success: likes(&http.to_client_on_success),
                    ..Default::default()
                }),
                retry_policy: self.call_options.again.map(|again| again.encode(HTTP_FAILURES)),
                ..Default::default()
            }),
        };
        let forwards_all = matches!(&self.spoken, AuthProtocol::Http(http) if http.all_to_backend);
        ExtAuthz {
            transport_api_version: ApiVersion::V3.into(),
            failure_mode_allow: self.fail_open,
            with_request_body: self.body.map(BufferedBody::encode),
            stat_prefix: self.stat_prefix.as_deref().unwrap_or_default().to_owned(),
            // The first route of a request decides which filters apply: a response of the server must not select
            // another route.
            clear_route_cache: false,
            status_on_error: Some(HttpStatus { code: self.status_on_error.map_or(STATUS_ON_ERROR, i32::from) }),
            include_peer_certificate: true,
            decoder_header_mutation_rules: forwards_all.then(forwarded),
            allowed_headers: likes(&self.headers),
            services: Some(services),
            ..Default::default()
        }
    }
}

/// Returns the headers of a response that may be set in the request: not `host`, and none with which Envoy is directed
/// (Envoy's defaults), and none that describes the message or the connection of the response itself.
fn forwarded() -> HeaderMutationRules {
    let names: Vec<&str> = holdfast_check::header::FRAMING.into_iter().chain([CONTENT_HEADERS]).collect();
    HeaderMutationRules {
        disallow_system: Some(BoolValue { value: true }),
        disallow_expression: Some(encode::route::regex(&names.join("|"))),
        ..Default::default()
    }
}

/// Returns why the text is not usable as a prefix of statistics; `None` where it is.
pub fn stat_prefix_fault(prefix: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let fits = !prefix.is_empty() && prefix.len() <= STAT_PREFIX_BYTES_MAX && prefix.chars().all(legal);
    (!fits).then(|| {
        format!("must consist of letters, digits, _, - and ., with at most {STAT_PREFIX_BYTES_MAX} characters")
    })
}

impl BufferedBody {
    fn check(&self, field: &str) -> Option<Flaw> {
        let fits = (1..=BODY_BYTES_MAX).contains(&self.max);
        (!fits).then(|| Flaw::new(field, format!("{} is not between 1 and {BODY_BYTES_MAX} bytes", self.max)))
    }

    fn encode(self) -> BufferSettings {
        BufferSettings {
            max_request_bytes: self.max,
            allow_partial_message: self.partial,
            pack_as_bytes: self.as_bytes,
        }
    }
}

impl RouteExtAuth {
    /// Validates the per-route settings.
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws: Vec<Flaw> =
            self.body.iter().filter_map(|body| body.check("withRequestBody.maxRequestBytes")).collect();
        if self.context.len() > ENTRIES_MAX {
            flaws.push(Flaw::new("context", format!("must have at most {ENTRIES_MAX} entries")));
        }
        if !self.context.is_empty() && matches!(self.server.spoken, AuthProtocol::Http(_)) {
            flaws.push(Flaw::new("context", "an HTTP authorization server does not receive a context"));
        }
        flaws
    }

    /// Returns the per-route configuration. The entries of its map are encoded in order.
    pub fn encode(&self) -> Any {
        let mut settings = Vec::new();
        for (key, value) in &self.context {
            encode::entry(CONTEXT_FIELD, key, |bytes| prost::encoding::string::encode(2, value, bytes), &mut settings);
        }
        let body = self.body.map(BufferedBody::encode);
        settings.extend(CheckSettings { with_request_body: body, ..Default::default() }.encode_to_vec());
        let mut value = Vec::new();
        prost::encoding::bytes::encode(CHECK_SETTINGS_FIELD, &settings, &mut value);
        Any { type_url: ExtAuthzPerRoute::type_url(), value }
    }
}
