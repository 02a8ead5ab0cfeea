//! The filter ExternalAuth of a rule: requests are authorized by a server before they are forwarded or redirected.
//!
//! A filter that cannot be enforced as written closes its rule: nothing here may leave the authorization out.
//!
//! <https://gateway-api.sigs.k8s.io/geps/gep-1494/>

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gateway_api::httproutes::HttpRouteRulesFiltersRequestMirrorBackendRef as AuthBackend;
use holdfast_api::apis::gateway::filter::{ExternalAuth, ExternalAuthHttp, ForwardBody};
use holdfast_check::header::{self, HeaderFault};
use holdfast_check::path;
use holdfast_envoy::features::Flaw;
use holdfast_envoy::features::call_options::CallOptions;
use holdfast_envoy::features::ext_auth::{AuthProtocol, AuthServer, BufferedBody, ENTRIES_MAX, OverHttp, RouteExtAuth};
use holdfast_envoy::features::remote::Remote;
use holdfast_envoy::model::{Like, MatchedPart};
use holdfast_graph::{ObjectKey, Role};

use crate::backend_policy::backend::{self, Reference, Referrer, Refused, Sent};
use crate::reader::Reader;

/// Time limit of an authorization: the filter has no field for it.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The settings of a filter, without its server.
#[derive(Clone, Debug)]
pub(crate) struct AuthFilter {
    protocol: AuthProtocol,
    headers: Vec<Like>,
    body: Option<BufferedBody>,
    backend: AuthBackend,
}

/// Reads a filter. Returns `None` with at least one flaw if it cannot be enforced as written.
pub(super) fn read(written: &ExternalAuth, flaws: &mut Vec<Flaw>) -> Option<AuthFilter> {
    let ExternalAuth { protocol, backend_ref, grpc, http, forward_body } = written;
    let before = flaws.len();
    let (protocol, headers) = match (protocol.as_deref(), grpc, http) {
        (Some("GRPC"), Some(grpc), None) => {
            let headers = names("grpc.allowedHeaders", grpc.allowed_headers.as_deref(), header::name, flaws);
            (Some(AuthProtocol::Grpc), headers)
        }
        (Some("HTTP"), None, Some(http)) => {
            let headers = names("http.allowedHeaders", http.allowed_headers.as_deref(), header::name, flaws);
            (Some(AuthProtocol::Http(over_http(http, flaws))), headers)
        }
        (Some("GRPC"), ..) => {
            flaws.push(Flaw::new("", "grpc must be set where protocol is GRPC, and http must not be set"));
            (None, Vec::new())
        }
        (Some("HTTP"), ..) => {
            flaws.push(Flaw::new("", "http must be set where protocol is HTTP, and grpc must not be set"));
            (None, Vec::new())
        }
        (Some(other), ..) => {
            flaws.push(Flaw::new("protocol", format!("{other:?} is neither GRPC nor HTTP")));
            (None, Vec::new())
        }
        (None, ..) => {
            flaws.push(Flaw::new("protocol", "protocol must be set to GRPC or HTTP"));
            (None, Vec::new())
        }
    };
    let body = forward_body.as_ref().and_then(|body| body_of(body, flaws));
    if backend_ref.is_none() {
        flaws.push(Flaw::new("backendRef", "backendRef must be set"));
    }
    let is_whole = flaws.len() == before;
    protocol.zip(backend_ref.clone()).filter(|_| is_whole).map(|(protocol, backend)| AuthFilter {
        protocol,
        headers,
        body,
        backend,
    })
}

fn over_http(written: &ExternalAuthHttp, flaws: &mut Vec<Flaw>) -> OverHttp {
    let ExternalAuthHttp { path, allowed_headers: _, allowed_response_headers } = written;
    let path_prefix = path.clone().unwrap_or_else(|| "".into());
    if !path_prefix.is_empty()
        && let Err(fault) = path::full_replacement(&path_prefix)
    {
        flaws.push(Flaw::new("http.path", fault));
    }
    // A header of the request that Envoy or the connection depends on must not come from the server.
    let listed = allowed_response_headers.as_deref();
    let to_backend = names("http.allowedResponseHeaders", listed, header::modifiable_name, flaws);
    let all_to_backend = listed.is_none_or(<[_]>::is_empty);
    OverHttp { path_prefix, to_backend, all_to_backend, ..OverHttp::default() }
}

/// Reads a list of names of headers.
fn names(
    field: &str,
    written: Option<&[Arc<str>]>,
    check: impl Fn(&str) -> Result<String, HeaderFault>,
    flaws: &mut Vec<Flaw>,
) -> Vec<Like> {
    let written = written.unwrap_or_default();
    if written.len() > ENTRIES_MAX {
        flaws.push(Flaw::new(field, format!("must have at most {ENTRIES_MAX} entries")));
    }
    let mut likes = Vec::new();
    for (index, name) in written.iter().enumerate().take(ENTRIES_MAX) {
        match check(name) {
            Ok(name) => likes.push(Like { part: MatchedPart::Whole, text: name.into(), ignore_case: true }),
            Err(fault) => flaws.push(Flaw::new(format!("{field}[{index}]"), fault)),
        }
    }
    likes
}

/// Reads the part of the body that the server receives. A larger body is rejected (413): a server that sees only its
/// beginning would authorize a request that it does not know.
fn body_of(written: &ForwardBody, flaws: &mut Vec<Flaw>) -> Option<BufferedBody> {
    match u16::try_from(written.max_size.unwrap_or(0)) {
        Ok(0) => None,
        Ok(max) => Some(BufferedBody { max: max.into(), partial: false, as_bytes: false }),
        Err(_) => {
            let message = format!("{} is not between 0 and {} bytes", written.max_size.unwrap_or(0), u16::MAX);
            flaws.push(Flaw::new("forwardBody.maxSize", message));
            None
        }
    }
}

impl AuthFilter {
    /// Returns the authorization of the requests of a rule (`rules[1]`), by the filter at this field.
    pub(super) fn resolve(
        &self,
        route: &ObjectKey,
        section: &str,
        field: &str,
        reader: &mut Reader<'_>,
    ) -> Result<RouteExtAuth, Box<Refused>> {
        let referrer = Referrer { route, section, field, role: Role::Requires, sent: Sent::Others };
        let reference = Reference {
            group: self.backend.group.as_deref(),
            kind: self.backend.kind.as_deref(),
            namespace: self.backend.namespace.as_deref(),
            name: &self.backend.name,
            port: self.backend.port,
        };
        let backend = backend::resolve(&referrer, &reference, reader)?;
        let is_grpc = self.protocol == AuthProtocol::Grpc;
        let server = AuthServer {
            name: "".into(),
            // Routes with the same settings share the filter; each of them is its owner.
            owners: Vec::new(),
            remote: Remote::Backend(if is_grpc { backend.over_h2() } else { backend }),
            call_options: CallOptions::default(),
            spoken: self.protocol.clone(),
            timeout: TIMEOUT,
            fail_open: false,
            body: self.body,
            headers: self.headers.clone(),
            status_on_error: None,
            stat_prefix: None,
        };
        let server = Arc::new(server.named_by_settings());
        Ok(RouteExtAuth { server, context: BTreeMap::new(), body: None })
    }
}
