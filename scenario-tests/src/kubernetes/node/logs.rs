//! Logs of containers, as the API server requests them from a kubelet.
//!
//! Containers write to files without times, so the node notes the size of each file again and again; a request for the
//! lines since a time gets what was written after the last note before that time.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::tls::{Certificate, Front};

/// Namespace, Pod and container.
type Container = (String, String, String);

/// The log of a container.
#[derive(Debug)]
struct Log {
    file: PathBuf,
    /// Times in UTC, in the form of the API server, so that texts are ordered as times; each with the size at that time.
    sizes: Vec<(String, usize)>,
}

/// The logs of a node's containers, served at a loopback port over TLS.
#[derive(Debug)]
pub(super) struct Logs {
    logs: Arc<Mutex<BTreeMap<Container, Log>>>,
    front: Front,
    serving: JoinHandle<()>,
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Logs {
    pub(super) async fn serve() -> Result<Self> {
        let logs = Arc::default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let front = Certificate::of(&["node"])?.front(listener.local_addr()?).await?;
        let serving = tokio::spawn(serve(listener, Arc::clone(&logs)));
        Ok(Self { logs, front, serving })
    }

    /// The address of the server.
    pub(super) fn address(&self) -> SocketAddr {
        self.front.address
    }

    /// Adds the file of a container.
    pub(super) fn add(&self, namespace: &str, pod: &str, container: &str, file: &Path) {
        let key = (namespace.to_owned(), pod.to_owned(), container.to_owned());
        lock(&self.logs).insert(key, Log { file: file.to_owned(), sizes: Vec::new() });
    }

    /// Removes the containers of a Pod.
    pub(super) fn remove(&self, namespace: &str, pod: &str) {
        lock(&self.logs).retain(|(of, name, _), _| of != namespace || name != pod);
    }

    /// Notes the sizes of the files.
    pub(super) fn note(&self) -> Result<()> {
        for log in lock(&self.logs).values_mut() {
            let size = usize::try_from(fs::metadata(&log.file)?.len())?;
            // After the size: what is written from a second on is never in a note of an earlier second.
            let now = OffsetDateTime::now_utc().replace_nanosecond(0)?.format(&Rfc3339)?;
            match log.sizes.last_mut() {
                Some((time, last)) if *time == now => *last = size,
                _ => log.sizes.push((now, size)),
            }
        }
        Ok(())
    }
}

type Shared = Arc<Mutex<BTreeMap<Container, Log>>>;

async fn serve(listener: TcpListener, logs: Shared) {
    while let Ok((stream, _)) = listener.accept().await {
        let logs = Arc::clone(&logs);
        let respond = service_fn(move |request: Request<Incoming>| {
            let found = answer(&logs, request.uri());
            async move { Ok::<_, Infallible>(response(found)) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), respond));
    }
}

fn response(found: Option<Vec<u8>>) -> Response<Full<Bytes>> {
    let missing = found.is_none();
    let mut response = Response::new(Full::new(Bytes::from(found.unwrap_or_default())));
    if missing {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response
}

/// Returns the log for `/containerLogs/NAMESPACE/POD/CONTAINER?sinceTime=TIME`.
fn answer(logs: &Shared, uri: &Uri) -> Option<Vec<u8>> {
    let mut words = uri.path().strip_prefix("/containerLogs/")?.split('/').map(str::to_owned);
    let container = (words.next()?, words.next()?, words.next()?);
    let query = uri.query().unwrap_or_default();
    let since = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "sinceTime");
    let logs = lock(logs);
    let log = logs.get(&container)?;
    let before = |time: &str| log.sizes.iter().rev().find(|(noted, _)| noted.as_str() < time).map(|(_, size)| *size);
    let start = since.and_then(|(_, time)| before(&time)).unwrap_or(0);
    let bytes = fs::read(&log.file).ok()?;
    Some(bytes.get(start..).unwrap_or_default().to_vec())
}

fn lock(logs: &Shared) -> MutexGuard<'_, BTreeMap<Container, Log>> {
    logs.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    fn log(query: &str) -> Result<String> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("log");
        fs::write(&file, "one\ntwo\nthree\n")?;
        let sizes = [("2026-01-01T00:00:01Z", 4), ("2026-01-01T00:00:02Z", 8)].map(|(time, size)| (time.into(), size));
        let container = ("shop".to_owned(), "pod".to_owned(), "app".to_owned());
        let logs = Arc::new(Mutex::new(BTreeMap::from([(container, Log { file, sizes: sizes.into() })])));
        let uri = format!("/containerLogs/shop/pod/app{query}").parse()?;
        Ok(String::from_utf8(answer(&logs, &uri).context("no log")?)?)
    }

    #[test]
    fn a_log_since_a_time_begins_at_the_last_note_before_that_second() -> Result<()> {
        assert_eq!(log("")?, "one\ntwo\nthree\n");
        assert_eq!(log("?sinceTime=2026-01-01T00%3A00%3A01Z")?, "one\ntwo\nthree\n");
        assert_eq!(log("?sinceTime=2026-01-01T00%3A00%3A02Z")?, "two\nthree\n");
        assert_eq!(log("?sinceTime=2026-01-01T00%3A00%3A03Z")?, "three\n");
        Ok(())
    }
}
