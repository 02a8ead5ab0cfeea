//! Server of an echo backend: accepts connections on a loopback port until it is dropped.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use super::answer::{EchoIdentity, answer, read_body};
use super::grpc::{GRPC_METHOD_HEADER, GrpcEcho, first_message};
use super::record::{RECORDED_DEFAULT, Recorded, Records};
use super::wish::ResponseOptions;

/// Maximum number of bytes of a request body that are read; the response does not wait for the rest.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of open connections; further connections wait to be accepted.
pub const CONNECTIONS_MAX: usize = 4096;
/// Pause before the next `accept` after an error such as too many open files.
const ACCEPT_REST: Duration = Duration::from_millis(50);

type EchoBody = BoxBody<Bytes, Infallible>;

/// The options of an echo server.
#[derive(Clone, Debug)]
pub struct EchoOptions {
    /// The identity that the server reports.
    pub identity: EchoIdentity,
    /// The listen address; port 0 selects a free port.
    pub address: SocketAddr,
    /// Maximum number of recorded requests; with 0 requests are only counted.
    pub recorded_max: usize,
}

impl EchoOptions {
    /// A server on a free loopback port, with the identity of pod `pod` of the Service `namespace/service`.
    pub fn new(namespace: &str, service: &str, pod: &str) -> Self {
        let identity = EchoIdentity {
            namespace: namespace.to_owned(),
            service: service.to_owned(),
            pod: pod.to_owned(),
            ..EchoIdentity::default()
        };
        Self { identity, address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), recorded_max: RECORDED_DEFAULT }
    }
}

/// A running echo server. Dropping it closes its port and its connections.
#[derive(Debug)]
pub struct Echo {
    address: SocketAddr,
    shared: Arc<EchoState>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct EchoState {
    identity: EchoIdentity,
    records: Records,
}

impl Echo {
    /// Binds the address and starts to serve. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound.
    pub async fn start(options: EchoOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(options.address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(EchoState { identity: options.identity, records: Records::new(options.recorded_max) });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, accepting })
    }

    /// The listen address with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The identity that the server reports.
    pub fn identity(&self) -> &EchoIdentity {
        &self.shared.identity
    }

    /// The number of requests since the start, recorded or not.
    pub fn received(&self) -> u64 {
        self.shared.records.received()
    }

    /// The recorded requests, oldest first.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.shared.records.newest()
    }

    /// The number of recorded requests for which `wanted` is true.
    pub fn count(&self, wanted: impl Fn(&Recorded) -> bool) -> usize {
        self.shared.records.count(wanted)
    }

    /// Removes the recorded requests; [`received`](Self::received) keeps counting.
    pub fn forget(&self) {
        self.shared.records.clear();
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts until the task is aborted; the connections are in its set and end with it.
async fn accept(listener: TcpListener, shared: Arc<EchoState>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    serve(stream, shared).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_REST).await,
        }
    }
}

/// An error of a connection is ignored: no response can be sent on it.
async fn serve(stream: TcpStream, shared: Arc<EchoState>) {
    let _ = stream.set_nodelay(true);
    let respond = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(respond(&shared, request).await) }
    });
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), respond).await;
}

async fn respond(shared: &EchoState, request: Request<Incoming>) -> Response<EchoBody> {
    let (parts, body) = request.into_parts();
    let wish = ResponseOptions::of(&parts);
    let body = read_body(body, BODY_BYTES_MAX).await;
    let grpc = is_grpc(&parts);
    let echoed = answer(&shared.identity, &parts, u64::try_from(body.len()).unwrap_or(u64::MAX));
    shared.records.add(grpc, &echoed);
    if !wish.delay.is_zero() {
        tokio::time::sleep(wish.delay).await;
    }
    let json = serde_json::to_string(&echoed).unwrap_or_default();
    let mut response =
        if grpc { grpc_response(parts.uri.path(), json, &body, &wish) } else { http_response(json, &wish) };
    for (name, value) in wish.headers {
        response.headers_mut().append(name, value);
    }
    response
}

fn is_grpc(request: &Parts) -> bool {
    request.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

fn http_response(json: String, wish: &ResponseOptions) -> Response<EchoBody> {
    let mut response = Response::new(Full::new(Bytes::from(json)).boxed());
    *response.status_mut() = wish.status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The gRPC response: status 200 with one message and the gRPC status in the trailers. A requested HTTP status replaces
/// 200, as a broken proxy between would respond.
fn grpc_response(path: &str, answer: String, body: &[u8], wish: &ResponseOptions) -> Response<EchoBody> {
    let method = path.trim_start_matches('/').to_owned();
    let method_header = HeaderValue::try_from(method.as_str()).ok();
    let message = GrpcEcho { method, answer, request: first_message(body).to_vec() };
    let mut trailers = HeaderMap::new();
    trailers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from(wish.grpc_status));
    let frames = [Frame::data(message.framed()), Frame::trailers(trailers)];
    let frames = StreamBody::new(futures::stream::iter(frames).map(Ok::<_, Infallible>));

    let mut response = Response::new(BodyExt::boxed(frames));
    *response.status_mut() = wish.status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    if let Some(method) = method_header {
        response.headers_mut().insert(GRPC_METHOD_HEADER, method);
    }
    response
}
