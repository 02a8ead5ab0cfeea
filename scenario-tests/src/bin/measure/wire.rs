//! gRPC channels over plain TCP on loopback that count the bytes that arrive.

use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use anyhow::Result;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tonic::codegen::Service;
use tonic::transport::{Channel, Endpoint, Uri};

/// Size of the windows of HTTP/2, as Envoy has them by default: the sender never waits for the client.
const WINDOW_BYTES: u32 = 256 << 20;

/// Opens a channel to a loopback port; all bytes that are read from its socket are added to `read`.
pub(crate) async fn open(port: u16, read: Arc<AtomicU64>) -> Result<AggregatedDiscoveryServiceClient<Channel>> {
    let endpoint = Endpoint::from_static("http://loopback")
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    let channel = endpoint.connect_with_connector(Connector { port, read }).await?;
    Ok(AggregatedDiscoveryServiceClient::new(channel).max_decoding_message_size(usize::MAX))
}

struct Connector {
    port: u16,
    read: Arc<AtomicU64>,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<CountedStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (port, read) = (self.port, self.read.clone());
        Box::pin(async move {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(CountedStream { stream, read }))
        })
    }
}

/// A socket that counts the bytes that are read from it.
struct CountedStream {
    stream: TcpStream,
    read: Arc<AtomicU64>,
}

impl AsyncRead for CountedStream {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(task, buffer);
        self.read.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}
