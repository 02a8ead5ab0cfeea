//! Connections to the HTTP pages: limits in number, per client address, and in duration.
//!
//! When the limit is reached, a new connection replaces one that waits for a request or for the rest of one. A client
//! that only keeps connections open therefore cannot block health checks.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::{Extension, Router};
use holdfast_xds::TlsSource;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::log_level::PeerAddress;

/// Timeout for the headers of a request, and for an idle connection before them.
pub(crate) const HEADERS_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum age of a connection; the client opens another one after its response. If the client does not read the
/// response, the connection ends [`CLOSING_TIMEOUT`] later.
pub(crate) const CONNECTION_AGE_MAX: Duration = Duration::from_secs(120);
/// Timeout for the response in progress when a connection is closed.
pub(crate) const CLOSING_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of the headers of one request, in bytes.
const PAGE_HEADER_BYTES_MAX: usize = 16 << 10;
/// Pause before the next `accept` after an error of the operating system.
const PAUSE: Duration = Duration::from_millis(100);

/// Limits in the number of connections of one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Limit for all clients together.
    pub all: usize,
    /// Limit for one client address (for IPv6, one /64 network).
    pub per_peer: usize,
}

/// An accepted connection.
struct AcceptedConnection {
    peer: IpAddr,
    /// Number of requests in progress.
    answering: Arc<AtomicUsize>,
    task: AbortHandle,
}

/// The accepted connections, oldest first.
struct Holders {
    places: ConnectionLimits,
    held: BTreeMap<u64, AcceptedConnection>,
    next: u64,
}

impl Holders {
    fn new(places: ConnectionLimits) -> Self {
        Self { places, held: BTreeMap::new(), next: 0 }
    }

    /// Makes room for a connection from `peer`; returns `false` if every connection that could be closed has a request
    /// in progress.
    fn make_place(&mut self, peer: IpAddr) -> bool {
        let from_there = self.held.values().filter(|held| held.peer == peer).count();
        let of_peer = from_there >= self.places.per_peer;
        if !of_peer && self.held.len() < self.places.all {
            return true;
        }
        let gives_way =
            |held: &AcceptedConnection| held.answering.load(Ordering::Relaxed) == 0 && (!of_peer || held.peer == peer);
        let Some(number) = self.held.iter().find(|(_, held)| gives_way(held)).map(|(number, _)| *number) else {
            return false;
        };
        if let Some(held) = self.held.remove(&number) {
            held.task.abort();
        }
        true
    }

    fn hold(&mut self, peer: IpAddr, answering: Arc<AtomicUsize>, task: AbortHandle) {
        self.held.insert(self.next, AcceptedConnection { peer, answering, task });
        self.next += 1;
    }

    /// Removes connections that have ended.
    fn sweep(&mut self) {
        self.held.retain(|_, held| !held.task.is_finished());
    }
}

/// The network of an address: the owner of one IPv6 address has the whole /64.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

/// Accepts connections until the product ends, then lets requests in progress finish.
pub(super) async fn take(
    listener: TcpListener,
    tls: Option<TlsSource>,
    pages: Router,
    places: ConnectionLimits,
    mut ending: watch::Receiver<bool>,
) {
    let (mut holders, mut connections) = (Holders::new(places), JoinSet::new());
    let is_ending = ending.clone();
    loop {
        tokio::select! {
            () = ended(&mut ending) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => holders.sweep(),
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    let (from, peer) = (PeerAddress(from.ip()), network(from.ip()));
                    holders.sweep();
                    if holders.make_place(peer) {
                        let answering = Arc::<AtomicUsize>::default();
                        let tls = tls.as_ref().map(|tls| TlsAcceptor::from(tls.borrow().clone()));
                        let pages = pages.clone().layer(Extension(from));
                        let connection = greet(stream, tls, pages, answering.clone(), is_ending.clone());
                        holders.hold(peer, answering, connections.spawn(connection));
                    } else {
                        tracing::debug!(%peer, "connection closed: all connections are in use by requests in progress");
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "an HTTP listener for diagnostics, health, metrics or the webhook cannot accept a \
                                            connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
    let _ = tokio::time::timeout(CLOSING_TIMEOUT, async { while connections.join_next().await.is_some() {} }).await;
}

/// Serves a connection, over TLS if there is a certificate.
async fn greet(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    pages: Router,
    answering: Arc<AtomicUsize>,
    ending: watch::Receiver<bool>,
) {
    let Some(tls) = tls else { return serve(stream, pages, answering, ending).await };
    match tokio::time::timeout(HEADERS_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(stream, pages, answering, ending).await,
        Ok(Err(error)) => tracing::debug!(%error, "connection closed: its TLS handshake failed"),
        Err(_) => tracing::debug!("connection closed: its TLS handshake was not complete in time"),
    }
}

async fn serve<S>(stream: S, pages: Router, answering: Arc<AtomicUsize>, mut ending: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let answer = service_fn(move |request: Request<Incoming>| {
        let (pages, answering) = (pages.clone(), answering.clone());
        async move {
            let _answered = RequestInProgress::begin(answering);
            let answered: Result<Response<_>, Infallible> = pages.oneshot(request.map(axum::body::Body::new)).await;
            answered
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT)
        .max_buf_size(PAGE_HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), answer);
    tokio::pin!(connection);
    let over = tokio::time::sleep(CONNECTION_AGE_MAX);
    tokio::select! {
        // A connection that fails or times out just ends: there is no client left to report to.
        _ = connection.as_mut() => return,
        () = over => {}
        () = ended(&mut ending) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(CLOSING_TIMEOUT, connection).await;
}

async fn ended(ending: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, and so is the product.
    let _ = ending.wait_for(|ending| *ending).await;
}

/// Counts a request as in progress until its response is made.
struct RequestInProgress(Arc<AtomicUsize>);

impl RequestInProgress {
    fn begin(count: Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const PLACES: ConnectionLimits = ConnectionLimits { all: 12, per_peer: 8 };

    async fn started() -> (SocketAddr, watch::Sender<bool>, tokio::task::JoinHandle<()>) {
        let slow = || async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            "slow"
        };
        let pages =
            Router::new().route("/", axum::routing::get(|| async { "ok" })).route("/slow", axum::routing::get(slow));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (end, ending) = watch::channel(false);
        (listener.local_addr().unwrap(), end, tokio::spawn(take(listener, None, pages, PLACES, ending)))
    }

    async fn fetch(at: SocketAddr, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(at).await?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    #[tokio::test]
    async fn half_open_requests_give_way_to_whole_ones() {
        let (at, _end, _task) = started().await;
        let mut held = Vec::new();
        for _ in 0..50 {
            let mut stream = TcpStream::connect(at).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n").await.unwrap();
            held.push(stream);
            assert!(fetch(at, "/").await.unwrap().ends_with("ok"), "{}", held.len());
        }
        // The oldest connections were closed.
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::from_secs(2), held[0].read(&mut byte)).await.unwrap();
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }

    #[tokio::test]
    async fn what_is_being_answered_keeps_its_place() {
        let (at, _end, _task) = started().await;
        let slow: Vec<_> = (0..PLACES.per_peer).map(|_| tokio::spawn(fetch(at, "/slow"))).collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(fetch(at, "/").await.map_or(true, |answer| answer.is_empty()));
        for answer in slow {
            assert!(answer.await.unwrap().unwrap().ends_with("slow"));
        }
        assert!(fetch(at, "/").await.unwrap().ends_with("ok"));
    }

    #[tokio::test]
    async fn the_end_of_the_product_ends_idle_connections() {
        let (at, end, task) = started().await;
        let _idle = TcpStream::connect(at).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        end.send(true).unwrap();
        tokio::time::timeout(Duration::from_secs(5), task).await.unwrap().unwrap();
    }
}
