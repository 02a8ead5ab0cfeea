//! Descriptions of certificates for people: what a client sees of them, and no key.

use std::fmt;

use super::{CHAIN_BYTES_MAX, CHAIN_CERTIFICATES_MAX, certificates, leaf};
use crate::time::Moment;

/// A certificate as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSummary {
    /// The subject, as in `CN=shop.example.com`.
    pub subject: String,
    /// The issuer.
    pub issuer: String,
    /// The serial number in hexadecimal digits.
    pub serial: String,
    /// The begin and the end of the validity, in seconds of Unix time.
    pub validity: (i64, i64),
}

impl fmt::Display for CertificateSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, issuer, serial, validity: (from, until) } = self;
        write!(f, "certificate of {subject}, issuer {issuer}, serial {serial}, ")?;
        write!(f, "valid from {} until {}", Moment(*from), Moment(*until))
    }
}

/// Returns the certificates of a PEM text, at most [`CHAIN_CERTIFICATES_MAX`]; none of a text that is not PEM or that is
/// over [`CHAIN_BYTES_MAX`], and none for a block that is no certificate.
pub fn summaries(pem: &[u8]) -> Vec<CertificateSummary> {
    let blocks = certificates("certificate", pem, CHAIN_BYTES_MAX).unwrap_or_default();
    let read = |der: &Vec<u8>| {
        let certificate = leaf::parse(der)?;
        let validity = certificate.validity();
        Some(CertificateSummary {
            subject: certificate.subject().to_string(),
            issuer: certificate.issuer().to_string(),
            serial: certificate.tbs_certificate.raw_serial().iter().map(|byte| format!("{byte:02x}")).collect(),
            validity: (validity.not_before.timestamp(), validity.not_after.timestamp()),
        })
    };
    blocks.iter().take(CHAIN_CERTIFICATES_MAX).filter_map(read).collect()
}
