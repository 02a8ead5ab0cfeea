//! Certificate, key and authorities of a server, from files that are reloaded when they change.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use holdfast_xds::{TlsSource, tls};
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;

/// Maximum size of a file, in bytes.
const CREDENTIAL_FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of certificates of one file.
const CERTIFICATES_MAX: usize = 256;
/// Interval at which the contents of the files are compared, so that any way of replacing them works.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The verifier of client certificates; `None` if client certificates are not accepted.
pub(crate) type Clients = Option<Arc<dyn ClientCertVerifier>>;

/// The server that the files are for, and their flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerFlags {
    pub(crate) certificate: &'static str,
    pub(crate) key: &'static str,
    /// The server, for messages.
    pub(crate) server: &'static str,
    /// The protocol that it speaks, in the words of ALPN.
    pub(crate) protocol: &'static [u8],
}

/// The files.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    pub(crate) flags: ServerFlags,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client_ca: Option<PathBuf>,
    /// Whether clients may present a token instead of a certificate.
    pub(crate) others_have_tokens: bool,
}

/// The contents of the files.
#[derive(PartialEq, Eq)]
struct TlsFileContents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// Reads the files now, and again whenever they change, until the receivers are dropped.
///
/// # Errors
/// Returns an error if the files are unusable now. Unusable files later change nothing, and are logged.
pub(crate) fn follow(files: TlsFiles) -> Result<(TlsSource, watch::Receiver<Clients>)> {
    let contents = files.read()?;
    let (configuration, clients) = files.make(&contents)?;
    let (tls, tls_source) = watch::channel(configuration);
    let (verifier, verifiers) = watch::channel(clients);
    tokio::spawn(async move {
        let mut seen = Ok(contents);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if tls.is_closed() {
                return;
            }
            let source = files.clone();
            let read = tokio::task::spawn_blocking(move || source.read().map_err(|error| format!("{error:#}"))).await;
            let Ok(read) = read else { return };
            if read == seen {
                continue;
            }
            let made = read.as_ref().map_err(|error| anyhow::anyhow!("{error}")).and_then(|read| files.make(read));
            match made {
                Ok((configuration, clients)) => {
                    // The verifiers first: a client that passes the new handshake must also pass the check after it.
                    verifier.send_replace(clients);
                    tls.send_replace(configuration);
                    tracing::info!(
                        "the certificates of the {} have changed; new connections use the new certificates",
                        files.flags.server
                    );
                }
                Err(error) => tracing::error!(
                    error = format!("{error:#}"),
                    "cannot use the changed certificates of the {}; the previous certificates stay in use",
                    files.flags.server
                ),
            }
            seen = read;
        }
    });
    Ok((tls_source, verifiers))
}

impl TlsFiles {
    fn read(&self) -> Result<TlsFileContents> {
        let client_ca = self.client_ca.as_ref().map(|path| read("--xds-client-ca", path));
        Ok(TlsFileContents {
            certificate: read(self.flags.certificate, &self.certificate)?,
            key: read(self.flags.key, &self.key)?,
            client_ca: client_ca.transpose()?,
        })
    }

    fn make(&self, contents: &TlsFileContents) -> Result<(Arc<rustls::ServerConfig>, Clients)> {
        let ServerFlags { certificate, key: key_flag, protocol, .. } = self.flags;
        let chain = certificates(&contents.certificate).context(certificate)?;
        // The parse error is dropped, since it could contain parts of the key.
        let key = PrivateKeyDer::from_pem_slice(&contents.key).ok();
        let key = key.with_context(|| format!("{key_flag}: the file contains no private key in PEM"))?;
        let clients = match &contents.client_ca {
            Some(bundle) => {
                let authorities = certificates(bundle).context("--xds-client-ca")?;
                Some(tls::verifier(authorities, self.others_have_tokens).context("--xds-client-ca")?)
            }
            None => None,
        };
        let pair = || format!("{certificate} and {key_flag}");
        let mut configuration = tls::configuration(chain, key, clients.clone()).with_context(pair)?;
        configuration.alpn_protocols = vec![protocol.to_vec()];
        Ok((Arc::new(configuration), clients))
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).take(CERTIFICATES_MAX + 1).collect();
    match all {
        Ok(all) if all.is_empty() => bail!("the file contains no certificate in PEM"),
        Ok(all) if all.len() > CERTIFICATES_MAX => bail!("the file contains more than {CERTIFICATES_MAX} certificates"),
        Ok(all) => Ok(all),
        Err(_) => bail!("the file cannot be read as PEM"),
    }
}

pub(super) fn read(flag: &str, path: &Path) -> Result<Vec<u8>> {
    let named = || format!("{flag} {}", path.display());
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(CREDENTIAL_FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .with_context(named)?;
    if bytes.len() as u64 > CREDENTIAL_FILE_BYTES_MAX {
        bail!("{}: more than {CREDENTIAL_FILE_BYTES_MAX} bytes", named());
    }
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    fn pair() -> (String, String) {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["a.example".into()]).unwrap();
        (cert.pem(), signing_key.serialize_pem())
    }

    #[tokio::test]
    async fn a_pair_that_cannot_be_used_is_no_start_and_later_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (certificate, key, client_ca) = (at("crt"), at("key"), Some(at("ca")));
        let files = TlsFiles { flags: super::super::FLAGS, certificate, key, client_ca, others_have_tokens: false };
        let (certificate, key) = pair();
        let write = |name: &str, text: &str| std::fs::write(at(name), text).unwrap();
        let refused = || format!("{:#}", follow(files.clone()).err().unwrap());
        assert!(refused().contains("--xds-tls-cert"));
        write("crt", &certificate);
        write("key", "hunter2");
        write("ca", &certificate);
        assert!(refused().contains("--xds-tls-key") && !refused().contains("hunter2"));
        write("key", &pair().1);
        assert!(refused().contains("--xds-tls-key"));
        write("key", &key);
        write("ca", "");
        assert!(refused().contains("--xds-client-ca"));
        write("ca", &certificate);
        let (mut tls, clients) = follow(files).unwrap();
        assert!(clients.borrow().is_some());

        let before = tls.borrow_and_update().clone();
        let (certificate, key) = pair();
        write("crt", &certificate);
        tokio::time::sleep(2 * LOOK_EVERY).await;
        assert!(Arc::ptr_eq(&before, &tls.borrow()));
        write("key", &key);
        tokio::time::timeout(Duration::from_secs(30), tls.changed()).await.unwrap().unwrap();
        assert!(!Arc::ptr_eq(&before, &tls.borrow()));
    }
}
