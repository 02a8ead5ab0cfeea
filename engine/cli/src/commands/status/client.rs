//! Request to diagnostics.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::TcpStream;

use super::Diagnostics;
use crate::cli::{DataFormat, TableFormat};
use crate::failure::Failure;
use crate::output;
use crate::printable::printable;

/// Timeout of the response.
const STATUS_ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum number of bytes of the response that are read.
const STATUS_ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The answer of a page.
#[derive(Debug)]
enum DiagnosticsAnswer {
    /// The body.
    Ok(Bytes),
    /// The query is invalid, for this reason.
    BadRequest(String),
}

/// Requests a page.
async fn fetch(diagnostics: &Diagnostics, method: Method, page: &str) -> anyhow::Result<DiagnosticsAnswer> {
    let answer = request(&diagnostics.0, method, page);
    tokio::time::timeout(STATUS_ANSWER_TIME_MAX, answer).await.context("no answer in time")?
}

/// Requests a page with a query, and returns its body. An invalid query is an error of usage.
pub(crate) fn query(diagnostics: &Diagnostics, page: &str, path: &str) -> Result<Bytes, Failure> {
    send(diagnostics, Method::GET, page, path)
}

/// Sends a request for a page with a query, and returns the body of the response. An invalid query is an error of usage.
pub(crate) fn send(diagnostics: &Diagnostics, method: Method, page: &str, path: &str) -> Result<Bytes, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    match runtime.block_on(fetch(diagnostics, method, path)).map_err(|error| undetermined(diagnostics, page, &error))? {
        DiagnosticsAnswer::Ok(body) => Ok(body),
        DiagnosticsAnswer::BadRequest(why) => Err(Failure::usage(printable(why.trim_end(), |_| false).into_owned())),
    }
}

/// A report of a running Holdfast, for programs and for people.
#[derive(Deserialize)]
pub(crate) struct ReportPage {
    report: Value,
    text: String,
}

impl ReportPage {
    /// Requests a report; returns it with its outcome.
    pub(crate) fn request<O: DeserializeOwned>(
        diagnostics: &Diagnostics,
        page: &str,
        path: &str,
    ) -> Result<(Self, O), Failure> {
        let body = query(diagnostics, page, path)?;
        let undetermined = |error: &anyhow::Error| undetermined(diagnostics, page, error);
        let page: Self =
            serde_json::from_slice(&body).context("its answer is not valid").map_err(|error| undetermined(&error))?;
        let outcome = O::deserialize(page.report.get("outcome").unwrap_or(&Value::Null));
        let outcome = outcome.context("its answer has no outcome").map_err(|error| undetermined(&error))?;
        Ok((page, outcome))
    }

    /// The printed form.
    pub(crate) fn printed(&self, form: TableFormat) -> Result<String, Failure> {
        Ok(match form {
            TableFormat::Text => printable(&self.text, |character| character == '\n').into_owned(),
            TableFormat::Json => output::format(&self.report, DataFormat::Json)?,
        })
    }
}

/// The body of a page.
pub(crate) async fn get(diagnostics: &Diagnostics, page: &str) -> anyhow::Result<Bytes> {
    match fetch(diagnostics, Method::GET, page).await? {
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

async fn request(address: &str, method: Method, page: &str) -> anyhow::Result<DiagnosticsAnswer> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // The connection ends with its sender; an error of it shows in the response.
    tokio::spawn(async move { connection.await.ok() });
    // The pages accept only this host name or an IP address.
    let request =
        Request::builder().method(method).uri(page).header(header::HOST, "localhost").body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let expected = matches!(status, StatusCode::OK | StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN);
    ensure!(expected, "the response has status {status}");
    let body = Limited::new(answer.into_body(), STATUS_ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("the answer could not be read: {error}"))?.to_bytes();
    Ok(match status {
        StatusCode::OK => DiagnosticsAnswer::Ok(body),
        StatusCode::FORBIDDEN => bail!("{}", printable(String::from_utf8_lossy(&body).trim_end(), |_| false)),
        _ => DiagnosticsAnswer::BadRequest(String::from_utf8_lossy(&body).into_owned()),
    })
}
