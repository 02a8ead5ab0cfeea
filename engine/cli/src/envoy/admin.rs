//! Client of an Envoy's admin interface over its unix socket, to end the Envoy without aborting requests.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// Maximum number of bytes of a response that are read.
const ADMIN_ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Timeout of a response.
const ADMIN_ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
/// Polling interval for requests in progress.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// Returns whether the Envoy is ready, that is, has received its first configuration.
pub(super) async fn is_ready(socket: &Path) -> bool {
    request(socket, Method::GET, "/ready").await.is_ok()
}

/// Returns whether the Envoy answers, with any status; `None` if nothing listens on the socket, which proves nothing.
pub(super) async fn answers(socket: &Path) -> Option<bool> {
    let answered = tokio::time::timeout(ADMIN_ANSWER_TIME_MAX, response(socket, Method::GET, "/ready")).await;
    match answered {
        Ok(Ok(_)) => Some(true),
        Ok(Err(error)) => {
            let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
            let is_absent = matches!(kind, Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused));
            // The queue of connections of a stopped process is full after a while.
            if is_absent { None } else { Some(false) }
        }
        Err(_) => Some(false),
    }
}

/// Stops accepting connections, and waits until no request is in progress, for at most `at_most`.
pub(crate) async fn drain(socket: &Path, at_most: Duration) {
    let drained = async {
        request(socket, Method::POST, "/healthcheck/fail").await?;
        request(socket, Method::POST, "/drain_listeners?graceful").await?;
        while requests_under_way(&request(socket, Method::GET, "/stats?filter=downstream_rq_active").await?) > 0 {
            tokio::time::sleep(POLL_EVERY).await;
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(at_most, drained).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(error = format!("{error:#}"), "an Envoy cannot be drained"),
        Err(_) => tracing::warn!("requests are aborted: they are still in progress after {at_most:?}"),
    }
}

/// Sum of `http.<prefix>.downstream_rq_active: <count>`, without the admin interface's own.
fn requests_under_way(stats: &str) -> u64 {
    stats
        .lines()
        .filter_map(|line| line.split_once(": "))
        .filter(|(name, _)| name.starts_with("http.") && !name.starts_with("http.admin."))
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .sum()
}

async fn request(socket: &Path, method: Method, path: &str) -> Result<String> {
    tokio::time::timeout(ADMIN_ANSWER_TIME_MAX, send_without_timeout(socket, method, path))
        .await
        .context("no answer in time")?
}

async fn send_without_timeout(socket: &Path, method: Method, path: &str) -> Result<String> {
    let (status, body) = response(socket, method, path).await?;
    ensure!(status.is_success(), "{path} answered {status}");
    Ok(body)
}

async fn response(socket: &Path, method: Method, path: &str) -> Result<(StatusCode, String)> {
    let stream = UnixStream::connect(socket).await.context("cannot connect")?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // The task ends with the sender, which also reports errors of the connection.
    let connection = tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", "envoy").body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ADMIN_ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
    connection.abort();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::requests_under_way;

    #[test]
    fn requests_of_clients_are_counted_and_those_of_admin_are_not() {
        let stats =
            "http.admin.downstream_rq_active: 1\nhttp.web.downstream_rq_active: 2\nhttp.w2.downstream_rq_active: 3\n";
        assert_eq!(requests_under_way(stats), 5);
        assert_eq!(requests_under_way(""), 0);
    }
}
