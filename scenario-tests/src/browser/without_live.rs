//! A relay before the diagnostics of Holdfast that refuses the stream of changes, as some proxies do.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Maximum size of the head of a request, in bytes.
const HEAD_MAX: usize = 16 * 1024;
const END_OF_HEAD: &[u8] = b"\r\n\r\n";
const REFUSED: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// A relay to the diagnostics of a Holdfast, until it is dropped.
#[derive(Debug)]
pub struct WithoutLive {
    /// The port of the relay.
    pub port: u16,
    accepting: JoinHandle<()>,
}

impl WithoutLive {
    /// Starts a relay to a loopback port.
    ///
    /// # Errors
    /// If no port can be bound.
    pub async fn start(to: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(relay(stream, (Ipv4Addr::LOCALHOST, to).into()));
            }
        });
        Ok(Self { port, accepting })
    }
}

impl Drop for WithoutLive {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Relays the first request of a connection; the other side closes the connection after its response.
async fn relay(mut stream: TcpStream, to: SocketAddr) -> Result<()> {
    let mut head = Vec::new();
    while !head.windows(END_OF_HEAD.len()).any(|window| window == END_OF_HEAD) {
        ensure!(head.len() < HEAD_MAX && stream.read_buf(&mut head).await? > 0, "no request");
    }
    if head.starts_with(b"GET /live ") {
        return Ok(stream.write_all(REFUSED.as_bytes()).await?);
    }
    let head = String::from_utf8_lossy(&head).replace("Connection: keep-alive", "Connection: close");
    let mut behind = TcpStream::connect(to).await?;
    behind.write_all(head.as_bytes()).await?;
    tokio::io::copy_bidirectional(&mut stream, &mut behind).await?;
    Ok(())
}
