//! One connection: the credentials that its client presented, and the end of the connection.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use crate::limits::{ADMISSION_TIMEOUT, CLOSING_TIMEOUT};
use crate::rooms::Room;
use crate::silence::ClientActivity;

/// The client of a connection; clones share the same state.
#[derive(Clone, Debug)]
pub(crate) struct Peer(Arc<PeerState>);

#[derive(Debug)]
struct PeerState {
    chain: Vec<CertificateDer<'static>>,
    address: Option<IpAddr>,
    room: Mutex<Option<Room>>,
    stage: watch::Sender<PeerStage>,
    activity: ClientActivity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerStage {
    Unauthenticated,
    Known,
    Closing,
}

impl Peer {
    fn new(chain: Vec<CertificateDer<'static>>, address: Option<IpAddr>, room: Option<Room>) -> Self {
        Self(Arc::new(PeerState {
            chain,
            address,
            room: Mutex::new(room),
            stage: watch::Sender::new(PeerStage::Unauthenticated),
            activity: ClientActivity::of_new(Instant::now()),
        }))
    }

    /// Returns the certificate chain; empty where the client presented none.
    pub(crate) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.0.chain
    }

    /// Returns the address; `None` on a unix socket.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.0.address
    }

    /// Returns when bytes of the client were last read.
    pub(crate) fn activity(&self) -> &ClientActivity {
        &self.0.activity
    }

    /// Records that an RPC of the client was admitted.
    pub(crate) fn mark_authenticated(&self) {
        let is_new = self.0.stage.send_if_modified(|stage| {
            let is_new = *stage == PeerStage::Unauthenticated;
            *stage = if is_new { PeerStage::Known } else { *stage };
            is_new
        });
        if is_new && let Some(room) = &mut *self.0.room.lock().unwrap_or_else(PoisonError::into_inner) {
            room.known();
        }
    }

    /// Closes the connection as soon as the last data is transmitted: a client that reconnects must authenticate again.
    pub(crate) fn close(&self) {
        self.0.stage.send_replace(PeerStage::Closing);
    }
}

/// The bytes of a connection. Reading fails once the connection is about to close.
pub(crate) struct PeerIo {
    wire: Wire,
    peer: Peer,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
}

enum Wire {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl PeerIo {
    /// Returns a connection without TLS.
    pub(crate) fn tcp(stream: TcpStream, address: IpAddr, room: Room) -> Self {
        Self::new(Wire::Tcp(stream), Peer::new(Vec::new(), Some(address), Some(room)))
    }

    /// Returns a connection of a unix socket.
    pub(crate) fn unix(stream: UnixStream) -> Self {
        Self::new(Wire::Unix(stream), Peer::new(Vec::new(), None, None))
    }

    /// Returns a TLS connection after its handshake.
    pub(crate) fn tls(stream: TlsStream<TcpStream>, address: IpAddr, room: Room) -> Self {
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        Self::new(Wire::Tls(Box::new(stream)), Peer::new(chain, Some(address), Some(room)))
    }

    fn new(wire: Wire, peer: Peer) -> Self {
        let mut stage = peer.0.stage.subscribe();
        let end = Box::pin(async move {
            let admission = stage.wait_for(|stage| *stage != PeerStage::Unauthenticated);
            if !matches!(tokio::time::timeout(ADMISSION_TIMEOUT, admission).await, Ok(Ok(_))) {
                return;
            }
            if stage.wait_for(|stage| *stage == PeerStage::Closing).await.is_ok() {
                tokio::time::sleep(CLOSING_TIMEOUT).await;
            }
        });
        Self { wire, peer, end, ended: false }
    }
}

impl Connected for PeerIo {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for PeerIo {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.ended = self.ended || self.end.as_mut().poll(task).is_ready();
        if self.ended {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = bytes.filled().len();
        let read = match &mut self.wire {
            Wire::Tcp(stream) => Pin::new(stream).poll_read(task, bytes),
            Wire::Unix(stream) => Pin::new(stream).poll_read(task, bytes),
            Wire::Tls(stream) => Pin::new(stream).poll_read(task, bytes),
        };
        match &read {
            Poll::Ready(Ok(())) if bytes.filled().len() > before => self.peer.activity().bytes_read(Instant::now()),
            Poll::Ready(Ok(())) if bytes.remaining() == 0 => {}
            Poll::Ready(_) => self.peer.activity().closed_by_client(),
            Poll::Pending => {}
        }
        read
    }
}

impl AsyncWrite for PeerIo {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.wire {
            Wire::Tcp(stream) => Pin::new(stream).poll_write(task, bytes),
            Wire::Unix(stream) => Pin::new(stream).poll_write(task, bytes),
            Wire::Tls(stream) => Pin::new(stream).poll_write(task, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.wire {
            Wire::Tcp(stream) => Pin::new(stream).poll_write_vectored(task, bytes),
            Wire::Unix(stream) => Pin::new(stream).poll_write_vectored(task, bytes),
            Wire::Tls(stream) => Pin::new(stream).poll_write_vectored(task, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.wire {
            Wire::Tcp(stream) => stream.is_write_vectored(),
            Wire::Unix(stream) => stream.is_write_vectored(),
            Wire::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Tcp(stream) => Pin::new(stream).poll_flush(task),
            Wire::Unix(stream) => Pin::new(stream).poll_flush(task),
            Wire::Tls(stream) => Pin::new(stream).poll_flush(task),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Tcp(stream) => Pin::new(stream).poll_shutdown(task),
            Wire::Unix(stream) => Pin::new(stream).poll_shutdown(task),
            Wire::Tls(stream) => Pin::new(stream).poll_shutdown(task),
        }
    }
}
