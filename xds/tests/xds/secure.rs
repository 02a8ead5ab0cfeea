//! A server that rejects unauthenticated peers, and clients with certificates and tokens of all kinds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_xds::{Admitted, Authenticator, Listen, NotAdmitted, PresentedCredentials, bind, tls};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use crate::client::Server;

/// A time in the distant future.
pub(crate) const LATER: u64 = 4_000_000_000;

/// A certificate with its key.
pub(crate) struct CertificateWithKey(pub(crate) CertificateDer<'static>, PrivateKeyDer<'static>);

impl Clone for CertificateWithKey {
    fn clone(&self) -> Self {
        Self(self.0.clone(), self.1.clone_key())
    }
}

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) der: CertificateDer<'static>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let der = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), der }
    }

    pub(crate) fn sign(&self, name: &str) -> CertificateWithKey {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let der = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        CertificateWithKey(der, PrivateKeyDer::Pkcs8(key.serialize_der().into()))
    }
}

/// An authenticator that knows certificates by their bytes, and accepts `of <fleet>` as a token.
pub(crate) struct TestAuthenticator {
    by_certificate: HashMap<CertificateDer<'static>, &'static str>,
    until: u64,
}

impl Authenticator for TestAuthenticator {
    fn admit(&self, shown: &PresentedCredentials<'_>) -> Result<Admitted, NotAdmitted> {
        let by_token = shown.token.and_then(|token| token.strip_prefix("of "));
        let by_certificate = || shown.chain.first().and_then(|own| self.by_certificate.get(own).copied());
        let fleet = by_token.or_else(by_certificate).ok_or_else(|| NotAdmitted("shows nothing".into()))?;
        Ok(Admitted { fleet: fleet.into(), until: self.until })
    }
}

/// A server on loopback to which only `a/a` and `b/b` have credentials.
pub(crate) struct Guarded {
    pub(crate) server: Server,
    pub(crate) authority: Authority,
    pub(crate) a: CertificateWithKey,
    pub(crate) b: CertificateWithKey,
    pub(crate) tls: watch::Sender<Arc<rustls::ServerConfig>>,
}

impl Guarded {
    pub(crate) fn start() -> Self {
        Self::until(LATER)
    }

    /// Starts a server with credentials that expire after this number of seconds.
    pub(crate) fn for_seconds(seconds: u64) -> Self {
        Self::until(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + seconds)
    }

    fn until(until: u64) -> Self {
        let authority = Authority::new();
        let (a, b) = (authority.sign("a"), authority.sign("b"));
        let by_certificate = HashMap::from([(a.0.clone(), "a/a"), (b.0.clone(), "b/b")]);
        let (sender, source) = watch::channel(configuration(&authority, authority.sign("server")));
        let bound = bind(Listen::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
        let server = Server::on(bound.guard(source, Arc::new(TestAuthenticator { by_certificate, until })));
        Self { server, authority, a, b, tls: sender }
    }

    /// Returns a connection after its TLS handshake, as far as the client knows.
    pub(crate) async fn connect(&self, pair: Option<&CertificateWithKey>) -> std::io::Result<TlsStream<TcpStream>> {
        connect(&self.server, &self.authority, pair, &[&rustls::version::TLS13]).await
    }

    pub(crate) async fn channel(&self, pair: Option<&CertificateWithKey>) -> Result<Channel, tonic::transport::Error> {
        let connection = self.connect(pair).await.unwrap();
        let mut connection = Some(connection);
        let connector = service_fn(move |_: Uri| {
            let connection = connection.take();
            async move { connection.map(TokioIo::new).ok_or_else(|| std::io::Error::other("it ended")) }
        });
        Endpoint::from_static("http://server").connect_with_connector(connector).await
    }
}

/// Returns the configuration for new connections; client certificates are accepted, and not required.
pub(crate) fn configuration(authority: &Authority, pair: CertificateWithKey) -> Arc<rustls::ServerConfig> {
    let verifier = tls::verifier(vec![authority.der.clone()], true).unwrap();
    Arc::new(tls::configuration(vec![pair.0], pair.1, Some(verifier)).unwrap())
}

pub(crate) async fn connect(
    server: &Server,
    trusted: &Authority,
    pair: Option<&CertificateWithKey>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted.der.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut config = match pair.cloned() {
        Some(pair) => builder.with_client_auth_cert(vec![pair.0], pair.1).unwrap(),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(server.address.tcp().unwrap()).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("server").unwrap(), stream).await
}
