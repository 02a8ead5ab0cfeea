//! Accepting connections: connections are counted, must complete the handshake in time, and only then reach the server.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tracing::{debug, warn};

use crate::limits::HANDSHAKE_TIMEOUT;
use crate::peer::PeerIo;
use crate::rooms::{Room, Rooms};

/// Source of the TLS configuration for each new connection; existing connections are unchanged.
pub type TlsSource = watch::Receiver<Arc<ServerConfig>>;

/// Maximum number of connections that wait for the server.
const WAITING_CONNECTIONS_MAX: usize = 64;
/// Pause after the system refuses a connection (too many open files).
const PAUSE: Duration = Duration::from_millis(100);

/// Returns the connections of a socket after their handshake; without TLS there is no handshake. The socket is closed
/// when the stream is dropped.
pub(crate) fn open(
    listener: TcpListener,
    tls: Option<TlsSource>,
    rooms: Rooms,
) -> impl Stream<Item = Result<PeerIo, std::io::Error>> {
    let (sender, connections) = mpsc::channel(WAITING_CONNECTIONS_MAX);
    let mut accepting = JoinSet::new();
    accepting.spawn(accept(listener, tls, rooms, sender));
    ReceiverStream::new(connections).map(move |connection| {
        let _lives_as_long = &accepting;
        Ok(connection)
    })
}

async fn accept(listener: TcpListener, tls: Option<TlsSource>, rooms: Rooms, connections: mpsc::Sender<PeerIo>) {
    let mut handshakes = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = handshakes.join_next(), if !handshakes.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => match rooms.enter(from.ip()) {
                    Some(room) => {
                        handshakes.spawn(shake_hands(stream, from.ip(), room, tls.clone(), connections.clone()));
                    }
                    None => debug!(peer = %from.ip(), "connection closed: the limit of connections is reached"),
                },
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

async fn shake_hands(
    stream: TcpStream,
    from: std::net::IpAddr,
    room: Room,
    tls: Option<TlsSource>,
    connections: mpsc::Sender<PeerIo>,
) {
    // Responses for Envoys are small and sent one by one. Without this option the connection is only slower.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        // An error means that the server has stopped.
        let _ = connections.send(PeerIo::tcp(stream, from, room)).await;
        return;
    };
    let acceptor = TlsAcceptor::from(Arc::clone(&tls.borrow()));
    match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            // An error means that the server has stopped.
            let _ = connections.send(PeerIo::tls(stream, from, room)).await;
        }
        Ok(Err(error)) => debug!(peer = %from, %error, "TLS handshake failed"),
        Err(_) => debug!(peer = %from, "TLS handshake timed out"),
    }
}
