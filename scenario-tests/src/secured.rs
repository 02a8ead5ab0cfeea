//! A TLS terminator in front of a backend that records server names, client certificates, and connections without TLS.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, anyhow};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::tls::{Certificate, StoryAuthority};

/// First byte of every TLS connection (record type handshake).
const HANDSHAKE: u8 = 0x16;

/// A TLS terminator in front of a backend.
#[derive(Debug)]
pub struct Secured {
    /// The listen address.
    pub address: SocketAddr,
    seen: Arc<SeenConnections>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct SeenConnections {
    names: Mutex<BTreeSet<String>>,
    plain: AtomicUsize,
    shown: AtomicUsize,
    broken_off: AtomicUsize,
    /// The certificate of the last client that presented one, in DER.
    last: Mutex<Option<Vec<u8>>>,
    anonymous: AtomicUsize,
    careless: bool,
}

impl Secured {
    /// Starts a terminator with this certificate; where an authority is given, clients must present a certificate of
    /// it.
    pub async fn start(certificate: &Certificate, clients: Option<&StoryAuthority>, to: SocketAddr) -> Result<Self> {
        Self::with(certificate, clients.map(|clients| (clients, true)), SeenConnections::default(), to).await
    }

    /// Starts a terminator with this certificate that serves clients with a certificate of the authority, and clients
    /// without any certificate.
    pub async fn lenient(certificate: &Certificate, clients: &StoryAuthority, to: SocketAddr) -> Result<Self> {
        Self::with(certificate, Some((clients, false)), SeenConnections::default(), to).await
    }

    /// Starts a terminator with this certificate that also answers clients without TLS.
    pub async fn careless(certificate: &Certificate, to: SocketAddr) -> Result<Self> {
        Self::with(certificate, None, SeenConnections { careless: true, ..SeenConnections::default() }, to).await
    }

    async fn with(
        certificate: &Certificate,
        clients: Option<(&StoryAuthority, bool)>,
        seen: SeenConnections,
        to: SocketAddr,
    ) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let verifier: Option<Arc<dyn ClientCertVerifier>> = match clients {
            None => None,
            Some((authority, is_required)) => {
                let mut roots = RootCertStore::empty();
                let root = CertificateDer::from_pem_slice(authority.pem.as_bytes()).map_err(|why| anyhow!("{why}"))?;
                roots.add(root)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if is_required { verifier } else { verifier.allow_unauthenticated() };
                Some(verifier.build()?)
            }
        };
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(vec![certificate.der.clone()], certificate.key()?)?;
        let (acceptor, seen) = (TlsAcceptor::from(Arc::new(config)), Arc::new(seen));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let all = seen.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, acceptor.clone(), all.clone(), to));
            }
        });
        Ok(Self { address, seen, accepting })
    }

    /// The server names that clients sent; an empty name for a client that sent none.
    pub fn names(&self) -> BTreeSet<String> {
        self.seen.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of connections without TLS.
    pub fn plain(&self) -> usize {
        self.seen.plain.load(Ordering::Relaxed)
    }

    /// Number of failed TLS handshakes.
    pub fn broken_off(&self) -> usize {
        self.seen.broken_off.load(Ordering::Relaxed)
    }

    /// Number of connections with TLS and without a client certificate.
    pub fn anonymous(&self) -> usize {
        self.seen.anonymous.load(Ordering::Relaxed)
    }

    /// Returns whether this is the client certificate that was presented last.
    pub fn saw_last(&self, certificate: &Certificate) -> bool {
        let last = self.seen.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_deref() == Some(&*certificate.der)
    }

    /// Number of connections with a client certificate.
    pub fn shown(&self) -> usize {
        self.seen.shown.load(Ordering::Relaxed)
    }
}

async fn answer(
    mut stream: TcpStream,
    acceptor: TlsAcceptor,
    seen: Arc<SeenConnections>,
    to: SocketAddr,
) -> Result<()> {
    let mut first = [0];
    if stream.peek(&mut first).await? > 0 && first != [HANDSHAKE] {
        seen.plain.fetch_add(1, Ordering::Relaxed);
        if seen.careless {
            let mut behind = TcpStream::connect(to).await?;
            tokio::io::copy_bidirectional(&mut stream, &mut behind).await?;
        }
        return Ok(());
    }
    let accepted = acceptor.accept(stream).await;
    if accepted.is_err() {
        seen.broken_off.fetch_add(1, Ordering::Relaxed);
    }
    let mut stream = accepted?;
    let (_, connection) = stream.get_ref();
    let name = connection.server_name().unwrap_or_default().to_owned();
    match connection.peer_certificates().and_then(<[_]>::first) {
        Some(presented) => {
            seen.shown.fetch_add(1, Ordering::Relaxed);
            *seen.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(presented.to_vec());
        }
        None => drop(seen.anonymous.fetch_add(1, Ordering::Relaxed)),
    }
    seen.names.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
    let mut behind = TcpStream::connect(to).await?;
    tokio::io::copy_bidirectional(&mut stream, &mut behind).await?;
    Ok(())
}

/// Stops accepting connections.
impl Drop for Secured {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
