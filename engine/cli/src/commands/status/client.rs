//! Request to diagnostics.

use std::time::Duration;

use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Timeout of the response.
const STATUS_ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum number of bytes of the response that are read.
const STATUS_ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The body of a page.
pub(super) async fn get(address: &str, page: &str) -> anyhow::Result<Bytes> {
    tokio::time::timeout(STATUS_ANSWER_TIME_MAX, request(address, page)).await.context("no answer in time")?
}

async fn request(address: &str, page: &str) -> anyhow::Result<Bytes> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // The connection ends with its sender; an error of it shows in the response.
    tokio::spawn(async move { connection.await.ok() });
    // The pages accept only this host name or an IP address.
    let request = Request::get(page).header(header::HOST, "localhost").body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    ensure!(status == StatusCode::OK, "the response has status {status}");
    let body = Limited::new(answer.into_body(), STATUS_ANSWER_BYTES_MAX).collect().await;
    Ok(body.map_err(|error| anyhow::anyhow!("the answer could not be read: {error}"))?.to_bytes())
}
