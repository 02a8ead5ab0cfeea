//! External authorization servers over gRPC and HTTP: a request is allowed if its `authorization` header is [`CREDENTIALS`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::service::auth::v3::authorization_server::{Authorization, AuthorizationServer};
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::envoy::service::auth::v3::{CheckRequest, CheckResponse, DeniedHttpResponse, OkHttpResponse};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use envoy_types::pb::google::rpc::Status as RpcStatus;
use http_body_util::Full;
use hyper::Response;
use tokio_stream::wrappers::TcpListenerStream;

use super::{RunningServer, lock};

/// The `authorization` header of allowed requests.
pub const CREDENTIALS: &str = "let me in";
/// The header that allowed requests have at the backend.
pub const USER_HEADER: &str = "x-user";
/// The value of that header.
pub const USER: &str = "alice";
/// The header of responses over HTTP that has the reason.
pub const WHY_HEADER: &str = "x-why";
/// The status of denied requests.
pub const REFUSED: u16 = 401;
/// `PERMISSION_DENIED` of gRPC.
const PERMISSION_DENIED: i32 = 7;

/// A check request, as a server received it.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// Path; over HTTP with the path prefix of the authorization service.
    pub path: String,
    /// Headers.
    pub headers: BTreeMap<String, String>,
    /// Context extensions of the route; over gRPC only.
    pub context: BTreeMap<String, String>,
    /// The body, or the beginning of it.
    pub body: String,
}

type Checks = Arc<Mutex<Vec<Check>>>;

/// An authorization server.
#[derive(Debug)]
pub struct Authorizer {
    running: RunningServer,
    checks: Checks,
}

impl Authorizer {
    /// Starts a server over gRPC.
    pub async fn grpc() -> Result<Self> {
        Self::stumbling(0).await
    }

    /// Starts a server over gRPC that answers `UNAVAILABLE` to `times` requests before each request that it answers.
    pub async fn stumbling(times: u64) -> Result<Self> {
        let (listener, address) = super::bind().await?;
        let checks = Checks::default();
        let server = AuthorizationGrpc { checks: checks.clone(), stumbles: times, calls: AtomicU64::new(0) };
        let server = AuthorizationServer::new(server);
        let task = tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            let _ = tonic::transport::Server::builder().add_service(server).serve_with_incoming(incoming).await;
        });
        Ok(Self { running: RunningServer { address, task }, checks })
    }

    /// Starts a server over HTTP.
    pub async fn http() -> Result<Self> {
        let checks = Checks::default();
        let noted = checks.clone();
        let running = super::answering(move |request| {
            let headers = request.headers().iter();
            let headers =
                headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()));
            let body = String::from_utf8_lossy(request.body()).into_owned();
            let (path, headers) = (request.uri().to_string(), headers.collect());
            let check = Check { path, headers, body, ..Check::default() };
            let may_pass = check.may_pass();
            lock(&noted).push(check);
            let response = Response::builder().status(if may_pass { 200 } else { REFUSED });
            let response = response.header(WHY_HEADER, if may_pass { "said the word" } else { "did not say the word" });
            let response = if may_pass { response.header(USER_HEADER, USER) } else { response };
            response.body(Full::new(Bytes::from("asked over HTTP"))).unwrap_or_default()
        })
        .await?;
        Ok(Self { running, checks })
    }

    /// The listen address.
    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// The check requests so far.
    pub fn checks(&self) -> Vec<Check> {
        lock(&self.checks).clone()
    }
}

impl Check {
    fn may_pass(&self) -> bool {
        self.headers.get("authorization").is_some_and(|value| value == CREDENTIALS)
    }
}

struct AuthorizationGrpc {
    checks: Checks,
    stumbles: u64,
    calls: AtomicU64,
}

#[tonic::async_trait]
impl Authorization for AuthorizationGrpc {
    async fn check(
        &self,
        request: tonic::Request<CheckRequest>,
    ) -> Result<tonic::Response<CheckResponse>, tonic::Status> {
        if self.calls.fetch_add(1, Ordering::Relaxed) % (self.stumbles + 1) < self.stumbles {
            return Err(tonic::Status::unavailable("stumbled"));
        }
        let attributes = request.into_inner().attributes.unwrap_or_default();
        let http = attributes.request.and_then(|request| request.http).unwrap_or_default();
        let check = Check {
            path: http.path,
            headers: http.headers.into_iter().collect(),
            context: attributes.context_extensions.into_iter().collect(),
            body: http.body,
        };
        let may_pass = check.may_pass();
        lock(&self.checks).push(check);
        let (code, response) = if may_pass {
            let header = HeaderValue { key: USER_HEADER.into(), value: USER.into(), ..Default::default() };
            let headers = vec![HeaderValueOption { header: Some(header), ..Default::default() }];
            (0, HttpResponse::OkResponse(OkHttpResponse { headers, ..Default::default() }))
        } else {
            let status = Some(HttpStatus { code: REFUSED.into() });
            let body = "asked over gRPC".to_owned();
            (PERMISSION_DENIED, HttpResponse::DeniedResponse(DeniedHttpResponse { status, body, ..Default::default() }))
        };
        Ok(tonic::Response::new(CheckResponse {
            status: Some(RpcStatus { code, ..Default::default() }),
            http_response: Some(response),
            ..Default::default()
        }))
    }
}
