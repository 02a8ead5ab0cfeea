//! Backends of the demo: HTTP servers on loopback. A response names the pod, and the version of the route that led to
//! it.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use super::manifests::VERSION_HEADER;

/// Maximum number of open connections; further connections wait to be accepted.
const BACKEND_CONNECTIONS_MAX: usize = 1024;
/// Pause before the next `accept` after an error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The body of a response, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BackendAnswer {
    /// The name of the simulated pod.
    pub(super) pod: String,
    /// The path with the query, as received.
    pub(super) path: String,
    /// The version of the route that led to the backend, from a header that the route adds.
    pub(super) route_version: Option<u32>,
}

/// A running backend. Dropping it closes its port and its connections.
#[derive(Debug)]
pub(super) struct DemoBackend {
    address: SocketAddr,
    pod: Arc<DemoPod>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct DemoPod {
    name: &'static str,
    received: AtomicU64,
}

impl DemoBackend {
    /// Starts a backend on a free loopback port.
    pub(super) async fn start(name: &'static str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot start a backend")?;
        let address = listener.local_addr()?;
        let pod = Arc::new(DemoPod { name, received: AtomicU64::new(0) });
        let accepting = tokio::spawn(accept(listener, pod.clone()));
        Ok(Self { address, pod, accepting })
    }

    /// The listen address.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of requests since the start.
    pub(super) fn received(&self) -> u64 {
        self.pod.received.load(Ordering::Relaxed)
    }
}

impl Drop for DemoBackend {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts until the task is aborted; the connections are in its set and end with it.
async fn accept(listener: TcpListener, pod: Arc<DemoPod>) {
    let free = Arc::new(Semaphore::new(BACKEND_CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(permit) = free.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let pod = pod.clone();
                connections.spawn(async move {
                    serve(stream, pod).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// An error of a connection is ignored: no response can be sent on it.
async fn serve(stream: TcpStream, pod: Arc<DemoPod>) {
    let respond = service_fn(move |request| {
        let response = respond(&pod, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), respond).await;
}

fn respond(pod: &DemoPod, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    pod.received.fetch_add(1, Ordering::Relaxed);
    let version = request.headers().get(VERSION_HEADER);
    let answer = BackendAnswer {
        pod: pod.name.to_owned(),
        path: request.uri().to_string(),
        route_version: version.and_then(|version| version.to_str().ok()?.parse().ok()),
    };
    let mut response = Response::new(Full::new(Bytes::from(serde_json::to_string(&answer).unwrap_or_default())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
