//! One client connection to a Gateway: plain or TLS, HTTP/1.1 or HTTP/2, for any number of requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::tls::Certificate;

/// HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: with prior knowledge without TLS, by ALPN with TLS.
    Http2,
}

/// TLS parameters of a client: server name, trusted root, client certificate.
#[derive(Clone, Debug)]
pub struct ClientTls {
    /// Server name indication; the certificate must be valid for this name.
    pub server_name: String,
    /// The only trusted root.
    pub root: CertificateDer<'static>,
    /// Whether the client omits the server name indication.
    pub nameless: bool,
    /// The client certificate, if any.
    pub shown: Option<Arc<Certificate>>,
    /// Whether the client supports signatures with RSA only.
    pub only_rsa: bool,
    /// Whether the client supports no version above TLS 1.2.
    pub only_12: bool,
}

impl ClientTls {
    /// Omits the server name indication.
    pub fn nameless(self) -> Self {
        Self { nameless: true, ..self }
    }

    /// Supports signatures with RSA only.
    pub fn only_rsa(self) -> Self {
        Self { only_rsa: true, ..self }
    }

    /// Supports no version above TLS 1.2.
    pub fn only_12(self) -> Self {
        Self { only_12: true, ..self }
    }

    /// Adds a client certificate.
    pub fn showing(self, certificate: &Certificate) -> Self {
        Self { shown: Some(Arc::new(certificate.clone())), ..self }
    }
}

/// An open connection.
#[derive(Debug)]
pub struct ClientConnection {
    sender: Sender,
    /// The certificate of the server, with TLS.
    pub certificate: Option<CertificateDer<'static>>,
}

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl ClientConnection {
    /// Opens a connection to a loopback port.
    pub async fn open(port: u16, protocol: HttpVersion, trust: Option<&ClientTls>) -> Result<Self> {
        Self::open_from(Ipv4Addr::LOCALHOST, port, protocol, trust).await
    }

    /// Opens a connection to a loopback port from another loopback address.
    pub async fn open_from(
        from: Ipv4Addr,
        port: u16,
        protocol: HttpVersion,
        trust: Option<&ClientTls>,
    ) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = if from == Ipv4Addr::LOCALHOST {
            TcpStream::connect(address).await
        } else {
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::from((from, 0)))?;
            socket.connect(address).await
        };
        let stream = stream.with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        let Some(trust) = trust else {
            return Ok(Self { sender: Sender::over(stream, protocol).await?, certificate: None });
        };
        let name = ServerName::try_from(trust.server_name.clone())?;
        let stream = TlsConnector::from(Arc::new(config(trust, protocol)?))
            .connect(name, stream)
            .await
            .with_context(|| format!("TLS with {} at {address}", trust.server_name))?;
        let shown = stream.get_ref().1.peer_certificates().and_then(|shown| shown.first());
        let certificate = shown.map(|certificate| certificate.clone().into_owned());
        Ok(Self { sender: Sender::over(stream, protocol).await?, certificate })
    }

    /// Sends one request and reads the head of the response.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
        }
    }
}

impl Sender {
    async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, protocol: HttpVersion) -> Result<Self> {
        let stream = TokioIo::new(stream);
        match protocol {
            HttpVersion::Http1 => {
                let (sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                Ok(Self::Http1(sender))
            }
            HttpVersion::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
                tokio::spawn(connection);
                Ok(Self::Http2(sender))
            }
        }
    }
}

/// Opens a TLS connection to a loopback port, without sending HTTP.
pub(crate) async fn secured(port: u16, protocol: HttpVersion, trust: &ClientTls) -> Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let name = ServerName::try_from(trust.server_name.clone())?;
    Ok(TlsConnector::from(Arc::new(config(trust, protocol)?)).connect(name, stream).await?)
}

fn config(trust: &ClientTls, protocol: HttpVersion) -> Result<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trust.root.clone())?;
    let mut provider = rustls::crypto::ring::default_provider();
    if trust.only_rsa {
        let algorithms = provider.signature_verification_algorithms;
        let rsa = algorithms.mapping.iter().filter(|(scheme, _)| format!("{scheme:?}").starts_with("RSA"));
        // The type requires a static list; one for each connection of a few stories is no burden.
        let mapping = Vec::leak(rsa.copied().collect());
        provider.signature_verification_algorithms =
            rustls::crypto::WebPkiSupportedAlgorithms { mapping, ..algorithms };
    }
    let versions: &[_] = if trust.only_12 { &[&rustls::version::TLS12] } else { rustls::DEFAULT_VERSIONS };
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)?
        .with_root_certificates(roots);
    let mut config = match &trust.shown {
        Some(shown) => config.with_client_auth_cert(vec![shown.der.clone()], shown.key()?)?,
        None => config.with_no_client_auth(),
    };
    config.enable_sni = !trust.nameless;
    config.alpn_protocols = match protocol {
        HttpVersion::Http1 => vec![b"http/1.1".to_vec()],
        HttpVersion::Http2 => vec![b"h2".to_vec()],
    };
    Ok(config)
}
