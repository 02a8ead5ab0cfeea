//! TLS of the server: TLS 1.2 and 1.3, HTTP/2 only, and no session resumption.

use std::sync::Arc;

use rustls::server::NoServerSessionStorage;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Reason why TLS is not available.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Certificate and key cannot be used.
    #[error("certificate and key cannot be used: {0}")]
    Pair(rustls::Error),
    /// The certificate authorities for clients cannot be used.
    #[error("the certificate authorities for client certificates cannot be used: {0}")]
    Authorities(String),
}

/// Returns a configuration for new connections. Client certificates are requested where there is a [`verifier`].
///
/// # Errors
/// Fails where the key does not belong to the certificate, or is of an unsupported kind.
pub fn configuration(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<ServerConfig, TlsError> {
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(TlsError::Pair)?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(verifier),
    };
    let mut configuration = builder.with_single_cert(chain, key).map_err(TlsError::Pair)?;
    configuration.alpn_protocols = vec![b"h2".to_vec()];
    // A resumed session would not verify the certificate again, and would outlive a change of certificate authorities.
    configuration.session_storage = Arc::new(NoServerSessionStorage {});
    configuration.send_tls13_tickets = 0;
    Ok(configuration)
}

/// Returns a verifier that checks that a client certificate is issued by one of these authorities and currently valid.
/// Where certificates are optional, a client may also present none.
///
/// # Errors
/// Fails where there is no certificate authority.
pub fn verifier(
    authorities: Vec<CertificateDer<'static>>,
    is_optional: bool,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let wrong = |error: &dyn std::fmt::Display| TlsError::Authorities(error.to_string());
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|error| wrong(&error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if is_optional { builder.allow_unauthenticated() } else { builder };
    builder.build().map_err(|error| wrong(&error))
}
