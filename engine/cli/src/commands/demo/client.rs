//! HTTP requests of the demo, as a client of the Gateway sends them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::backend::BackendAnswer;

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes of a response that are read.
const DEMO_ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DemoResponse {
    /// HTTP status.
    pub(super) status: u16,
    /// The sender of the response: the pod of a backend, or the Gateway itself.
    pub(super) by: String,
    /// The version of the route that led to the backend.
    pub(super) version: Option<u32>,
    /// The body.
    pub(super) body: String,
}

/// Sends `GET path` with a `Host` header.
pub(super) async fn get(to: SocketAddr, host: &str, path: &str) -> anyhow::Result<DemoResponse> {
    tokio::time::timeout(REQUEST_TIMEOUT, request(to, host, path)).await.context("no answer in time")?
}

async fn request(to: SocketAddr, host: &str, path: &str) -> anyhow::Result<DemoResponse> {
    let stream = TcpStream::connect(to).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // The connection ends with its sender; an error of it shows in the response.
    tokio::spawn(async move { connection.await.ok() });
    let request = Request::get(path).header(header::HOST, host).body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), DEMO_ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("the answer could not be read: {error}"))?.to_bytes();
    let answered = serde_json::from_slice::<BackendAnswer>(&body).ok();
    let version = answered.as_ref().and_then(|answered| answered.route_version);
    let by = answered.map_or_else(|| "the Gateway".to_owned(), |answered| format!("pod {}", answered.pod));
    Ok(DemoResponse { status, by, version, body: String::from_utf8_lossy(&body).into_owned() })
}
