//! A server that is asked whether requests may pass, over gRPC or HTTP.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/ext_authz_filter>

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{ApiVersion, HeaderValue};
use envoy_types::pb::envoy::extensions::filters::http::ext_authz::v3::ext_authz::Services;
use envoy_types::pb::envoy::extensions::filters::http::ext_authz::v3::{
    AuthorizationRequest, AuthorizationResponse, BufferSettings, CheckSettings, ExtAuthz, ExtAuthzPerRoute, HttpService,
};
use envoy_types::pb::envoy::r#type::matcher::v3::ListStringMatcher;
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use envoy_types::pb::google::protobuf::Any;
use holdfast_graph::ObjectKey;
use prost::{Message, Name};

use super::Flaw;
use super::asking::{Asking, HTTP_FAILURES};
use super::remote::Remote;
use crate::check;
use crate::encode;
use crate::model::Like;

/// Entries of what a server is told about a route, and of a list of headers.
pub const ENTRIES_MAX: usize = 64;
/// Bytes of a request's body that a server may be told.
pub const BODY_BYTES_MAX: u32 = 16 * 1024 * 1024;
/// Bytes of what the names of statistics begin with.
pub const STAT_PREFIX_BYTES_MAX: usize = 256;
/// How long an answer may take where nothing is set: Envoy's own limit.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_millis(200);
/// The status of requests that are refused because there was no answer.
const STATUS_ON_ERROR: i32 = 403;

/// `ExtAuthzPerRoute.check_settings`.
const CHECK_SETTINGS_FIELD: u32 = 2;
/// `CheckSettings.context_extensions`.
const CONTEXT_FIELD: u32 = 1;

/// A server, as a filter of a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuthServer {
    /// The filter's name: of everything that must not be taken for something else while chains change.
    pub name: Arc<str>,
    /// The objects that say all this.
    pub owners: Vec<ObjectKey>,
    /// Whom it asks.
    pub remote: Remote,
    /// By which name, and how often.
    pub asking: Asking,
    /// How it asks.
    pub spoken: Spoken,
    /// How long an answer may take; zero is no limit.
    pub timeout: Duration,
    /// Do requests pass where there is no answer?
    pub fail_open: bool,
    /// How much of the body it is told.
    pub body: Option<Body>,
    /// Headers that it is told. Over gRPC all where none is listed, over HTTP a few beside those that are.
    pub headers: Vec<Like>,
    /// The status of requests that are refused because there was no answer, 403 where unset.
    pub status_on_error: Option<u16>,
    /// What the names of its statistics begin with.
    pub stat_prefix: Option<Arc<str>>,
}

/// How a server is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spoken {
    /// Over gRPC.
    Grpc,
    /// Over HTTP.
    Http(OverHttp),
}

/// How a server is asked over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OverHttp {
    /// What stands before the path.
    pub path_prefix: Arc<str>,
    /// Headers that it is told besides, with what Envoy fills in.
    pub added: Vec<(Arc<str>, Arc<str>)>,
    /// Headers of its answer that back ends are told.
    pub to_backend: Vec<Like>,
    /// Those that clients are told who may not pass; all where none is listed.
    pub to_client: Vec<Like>,
    /// Those that clients are told who may.
    pub to_client_on_success: Vec<Like>,
}

/// How much of a body a server is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Body {
    /// How many bytes, at least one.
    pub max: u32,
    /// Also where there are more? Otherwise such requests are refused.
    pub partial: bool,
    /// As bytes and not as text?
    pub as_bytes: bool,
}

/// What a route says: its requests are asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtAuth {
    /// The server.
    pub server: Arc<AuthServer>,
    /// What it is told about the route. Only over gRPC.
    pub context: BTreeMap<String, String>,
    /// How much of the body it is told; as the server's filter says where unset.
    pub body: Option<Body>,
}

impl AuthServer {
    /// Checks the server; everything that cannot be used is a flaw.
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let mut list = |field: &str, list: &[Like]| {
            if list.len() > ENTRIES_MAX {
                flaws.push(Flaw::new(field, format!("must have at most {ENTRIES_MAX} entries")));
            }
            for (index, like) in list.iter().enumerate().take(ENTRIES_MAX) {
                if let Err(fault) = check::header::name(&like.text) {
                    flaws.push(Flaw::new(format!("{field}[{index}]"), fault));
                }
            }
        };
        list("headers", &self.headers);
        if let Spoken::Http(OverHttp { path_prefix, to_backend, to_client, to_client_on_success, added }) = &self.spoken
        {
            list("toBackend", to_backend);
            list("toClient", to_client);
            list("toClientOnSuccess", to_client_on_success);
            if added.len() > ENTRIES_MAX {
                flaws.push(Flaw::new("added", format!("must have at most {ENTRIES_MAX} entries")));
            }
            if !path_prefix.is_empty()
                && let Err(fault) = check::path::front(path_prefix)
            {
                flaws.push(Flaw::new("pathPrefix", fault));
            }
        }
        flaws.extend(self.body.iter().filter_map(|body| body.check("body")));
        flaws
    }

    /// Envoy's form.
    pub(crate) fn encode(&self) -> ExtAuthz {
        let likes = |likes: &[Like]| {
            let patterns = likes.iter().map(encode::route::like).collect();
            (!likes.is_empty()).then_some(ListStringMatcher { patterns })
        };
        let services = match &self.spoken {
            Spoken::Grpc => Services::GrpcService(self.asking.grpc(&self.remote, Some(self.timeout))),
            Spoken::Http(http) => Services::HttpService(HttpService {
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
                    allowed_upstream_headers: likes(&http.to_backend),
                    allowed_client_headers: likes(&http.to_client),
                    allowed_client_headers_on_success: likes(&http.to_client_on_success),
                    ..Default::default()
                }),
                retry_policy: self.asking.again.map(|again| again.encode(HTTP_FAILURES)),
                ..Default::default()
            }),
        };
        ExtAuthz {
            transport_api_version: ApiVersion::V3.into(),
            failure_mode_allow: self.fail_open,
            with_request_body: self.body.map(Body::encode),
            stat_prefix: self.stat_prefix.as_deref().unwrap_or_default().to_owned(),
            // Which filters a request meets is decided by its first route: an answer must not choose another one.
            clear_route_cache: false,
            status_on_error: Some(HttpStatus { code: self.status_on_error.map_or(STATUS_ON_ERROR, i32::from) }),
            include_peer_certificate: true,
            allowed_headers: likes(&self.headers),
            services: Some(services),
            ..Default::default()
        }
    }
}

/// Why the names of statistics cannot begin so; unset where they can.
pub fn stat_prefix_fault(prefix: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let fits = !prefix.is_empty() && prefix.len() <= STAT_PREFIX_BYTES_MAX && prefix.chars().all(legal);
    (!fits).then(|| format!("is made of letters, digits, _, - and ., at most {STAT_PREFIX_BYTES_MAX}"))
}

impl Body {
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

impl ExtAuth {
    /// Checks what the server is told about the route.
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws: Vec<Flaw> =
            self.body.iter().filter_map(|body| body.check("withRequestBody.maxRequestBytes")).collect();
        if self.context.len() > ENTRIES_MAX {
            flaws.push(Flaw::new("context", format!("must have at most {ENTRIES_MAX} entries")));
        }
        if !self.context.is_empty() && matches!(self.server.spoken, Spoken::Http(_)) {
            flaws.push(Flaw::new("context", "a server that is asked over HTTP cannot be told a context"));
        }
        flaws
    }

    /// Envoy's form. Its map is written by hand, in order.
    pub(crate) fn encode(&self) -> Any {
        let mut settings = Vec::new();
        for (key, value) in &self.context {
            encode::entry(CONTEXT_FIELD, key, |bytes| prost::encoding::string::encode(2, value, bytes), &mut settings);
        }
        let body = self.body.map(Body::encode);
        settings.extend(CheckSettings { with_request_body: body, ..Default::default() }.encode_to_vec());
        let mut value = Vec::new();
        prost::encoding::bytes::encode(CHECK_SETTINGS_FIELD, &settings, &mut value);
        Any { type_url: ExtAuthzPerRoute::type_url(), value }
    }
}
