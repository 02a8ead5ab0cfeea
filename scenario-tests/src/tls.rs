//! Certificates of a story: created at its start, each trusted only by clients of the story.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedKey, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
    generate_simple_self_signed,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::connect::ClientTls;

/// An RSA key, which the tests cannot generate.
const RSA_KEY: &str = include_str!("../../engine/check/src/certificate/fixtures/rsa2048.key");

/// The validity of a certificate, in seconds relative to a time; unset: always.
#[derive(Clone, Copy, Debug, Default)]
pub struct CertificateLife {
    /// The beginning.
    pub begins: Option<i64>,
    /// The end.
    pub expires: Option<i64>,
}

impl CertificateLife {
    /// Sets the validity of a certificate.
    fn limit(self, mut params: CertificateParams, time: i64) -> CertificateParams {
        let at = |seconds: i64| {
            let seconds = u64::try_from(time.saturating_add(seconds)).unwrap_or_default();
            date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
        };
        params.not_before = self.begins.map_or(params.not_before, at);
        params.not_after = self.expires.map_or(params.not_after, at);
        params
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A certificate with its key.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// DER, as clients receive it.
    pub der: CertificateDer<'static>,
    /// `tls.crt`.
    pub pem: String,
    /// `tls.key`.
    pub key_pem: String,
}

impl Certificate {
    /// Creates a self-signed certificate for these names.
    pub fn of(names: &[&str]) -> Result<Self> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names)?;
        Ok(Self { der: cert.der().clone(), pem: cert.pem(), key_pem: signing_key.serialize_pem() })
    }

    /// Creates a self-signed certificate with a validity relative to a time, in seconds of Unix time.
    pub fn living(names: &[&str], life: CertificateLife, time: i64) -> Result<Self> {
        let params = life.limit(CertificateParams::new(owned(names))?, time);
        let key = KeyPair::generate()?;
        let cert = params.self_signed(&key)?;
        Ok(Self { der: cert.der().clone(), pem: cert.pem(), key_pem: key.serialize_pem() })
    }

    /// Creates a certificate as [`Self::living`] does, with an RSA key.
    pub fn living_rsa(names: &[&str], life: CertificateLife, time: i64) -> Result<Self> {
        let params = life.limit(CertificateParams::new(owned(names))?, time);
        let key = KeyPair::from_pem(RSA_KEY)?;
        let cert = params.self_signed(&key)?;
        Ok(Self { der: cert.der().clone(), pem: cert.pem(), key_pem: RSA_KEY.to_owned() })
    }

    /// Creates a chain of a certificate and its issuer, which another authority issued. The times are relative to one in
    /// seconds of Unix time.
    pub fn issued(names: &[&str], life: CertificateLife, issuer: CertificateLife, time: i64) -> Result<Self> {
        let (root, intermediate) = (StoryAuthority::new("root")?, KeyPair::generate()?);
        let mut params = issuer.limit(CertificateParams::new(Vec::new())?, time);
        params.distinguished_name.push(DnType::CommonName, "intermediate");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let chained = params.signed_by(&intermediate, &root.issuer)?;
        let key = KeyPair::generate()?;
        let params_of_server = life.limit(CertificateParams::new(owned(names))?, time);
        let cert = params_of_server.signed_by(&key, &Issuer::new(params, intermediate))?;
        Ok(Self { der: cert.der().clone(), pem: cert.pem() + &chained.pem(), key_pem: key.serialize_pem() })
    }

    /// Returns the TLS parameters of a client that expects `server_name` and accepts this certificate only.
    pub fn trust(&self, server_name: &str) -> ClientTls {
        ClientTls {
            server_name: server_name.to_owned(),
            root: self.der.clone(),
            nameless: false,
            shown: None,
            only_rsa: false,
            only_12: false,
        }
    }

    /// Returns a Secret of type `kubernetes.io/tls` in YAML.
    pub fn secret(&self, namespace: &str, name: &str) -> String {
        crate::manifests::tls_secret(namespace, name, &self.pem, &self.key_pem)
    }

    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).map_err(|error| anyhow!("{error}"))
    }

    /// Terminates TLS with this certificate at a loopback port, and forwards to an address.
    pub async fn front(&self, to: SocketAddr) -> Result<Front> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![self.der.clone()], self.key()?)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(stream).await?;
                    let mut behind = TcpStream::connect(to).await?;
                    tokio::io::copy_bidirectional(&mut stream, &mut behind).await
                });
            }
        });
        Ok(Front { address, accepting })
    }
}

/// A TLS terminator.
#[derive(Debug)]
pub struct Front {
    /// The listen address.
    pub address: SocketAddr,
    accepting: JoinHandle<()>,
}

/// Stops accepting connections.
impl Drop for Front {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A certificate authority for clients and servers.
#[derive(Debug)]
pub struct StoryAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// `ca.crt`.
    pub pem: String,
}

impl StoryAuthority {
    /// Creates an authority.
    pub fn new(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// Issues a server certificate for these names.
    pub fn server(&self, names: &[&str]) -> Result<Certificate> {
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names)?.signed_by(&key, &self.issuer)?;
        Ok(Certificate { der: certificate.der().clone(), pem: certificate.pem(), key_pem: key.serialize_pem() })
    }

    /// Issues a client certificate with a serial number, by which it can be revoked, a DNS name and a URI.
    pub fn client(&self, name: &str, number: u64) -> Result<Certificate> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![format!("{name}.clients.example.com")])?;
        params.subject_alt_names.push(SanType::URI(format!("spiffe://example.com/{name}").try_into()?));
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from(number));
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Certificate { der: certificate.der().clone(), pem: certificate.pem(), key_pem: key.serialize_pem() })
    }

    /// Issues `crl.pem` with these serial numbers.
    pub fn revoking(&self, numbers: &[u64]) -> Result<String> {
        let revoked = numbers.iter().map(|number| RevokedCertParams {
            serial_number: SerialNumber::from(*number),
            revocation_time: rcgen::date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2026, 1, 1),
            next_update: rcgen::date_time_ymd(2126, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(list.signed_by(&self.issuer)?.pem()?)
    }
}
