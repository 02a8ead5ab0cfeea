//! Request to diagnostics.

use std::time::Duration;

use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Diagnostics;
use crate::failure::Failure;

/// Timeout of the response.
const STATUS_ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum number of bytes of the response that are read.
const STATUS_ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The answer of a page.
#[derive(Debug)]
pub(crate) enum DiagnosticsAnswer {
    /// Its body.
    Ok(Bytes),
    /// The query is invalid, for this reason.
    BadRequest(String),
}

/// Requests a page.
pub(crate) async fn fetch(diagnostics: &Diagnostics, page: &str) -> anyhow::Result<DiagnosticsAnswer> {
    let answer = request(&diagnostics.0, page);
    tokio::time::timeout(STATUS_ANSWER_TIME_MAX, answer).await.context("no answer in time")?
}

/// The body of a page.
pub(crate) async fn get(diagnostics: &Diagnostics, page: &str) -> anyhow::Result<Bytes> {
    match fetch(diagnostics, page).await? {
        DiagnosticsAnswer::Ok(body) => Ok(body),
        DiagnosticsAnswer::BadRequest(why) => anyhow::bail!("the response has status 400: {why}"),
    }
}

/// The failure of a command that cannot read a page.
pub(crate) fn undetermined(diagnostics: &Diagnostics, page: &str, error: &anyhow::Error) -> Failure {
    let hint = "is Holdfast running, and is this the address of its --diagnostics-listen? Set another address with \
                --diagnostics";
    Failure::Undetermined(format!("cannot read http://{}{page}: {error:#}; {hint}", diagnostics.0))
}

async fn request(address: &str, page: &str) -> anyhow::Result<DiagnosticsAnswer> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // The connection ends with its sender; an error of it shows in the response.
    tokio::spawn(async move { connection.await.ok() });
    // The pages accept only this host name or an IP address.
    let request = Request::get(page).header(header::HOST, "localhost").body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    ensure!(matches!(status, StatusCode::OK | StatusCode::BAD_REQUEST), "the response has status {status}");
    let body = Limited::new(answer.into_body(), STATUS_ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("the answer could not be read: {error}"))?.to_bytes();
    Ok(match status {
        StatusCode::OK => DiagnosticsAnswer::Ok(body),
        _ => DiagnosticsAnswer::BadRequest(String::from_utf8_lossy(&body).into_owned()),
    })
}
