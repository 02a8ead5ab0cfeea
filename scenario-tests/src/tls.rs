//! Certificates of a story: made when it starts, each trusted by its own clients only.

use std::time::Duration;

use anyhow::Result;
use rcgen::{CertificateParams, CertifiedKey, KeyPair, date_time_ymd, generate_simple_self_signed};
use rustls::pki_types::CertificateDer;

use crate::connect::Trust;

/// A certificate with its key.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// As clients see it.
    pub der: CertificateDer<'static>,
    /// `tls.crt`.
    pub pem: String,
    /// `tls.key`.
    pub key_pem: String,
}

impl Certificate {
    /// A self-signed certificate for these names.
    pub fn of(names: &[&str]) -> Result<Self> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names)?;
        Ok(Self { der: cert.der().clone(), pem: cert.pem(), key_pem: signing_key.serialize_pem() })
    }

    /// The same, valid until so many seconds after the hour at which stories of the fallback begin.
    pub fn until(names: &[&str], seconds: u64) -> Result<Self> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.not_after = date_time_ymd(2027, 1, 15) + Duration::from_secs(8 * 3600 + seconds);
        let key = KeyPair::generate()?;
        let cert = params.self_signed(&key)?;
        Ok(Self { der: cert.der().clone(), pem: cert.pem(), key_pem: key.serialize_pem() })
    }

    /// What a client needs to ask for `server_name` and to accept this certificate only.
    pub fn trust(&self, server_name: &str) -> Trust {
        Trust { server_name: server_name.to_owned(), root: self.der.clone() }
    }

    /// A Secret of type `kubernetes.io/tls` in YAML.
    pub fn secret(&self, namespace: &str, name: &str) -> String {
        crate::manifests::tls_secret(namespace, name, &self.pem, &self.key_pem)
    }
}
