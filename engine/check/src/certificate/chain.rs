//! The validity of a certificate chain: that of the server certificate and of its issuers in the chain.
//!
//! Clients verify each certificate on the path to an authority that they trust. The path is followed by name. Other
//! certificates of the chain do not matter, and neither do self-signed ones: clients use their own copy of an
//! authority.

use x509_parser::certificate::X509Certificate;

use super::validity::{ChainPosition, Validity};
use super::{CertificateFault, leaf};

/// Returns the period in which every certificate on the path is valid.
pub(super) fn validity(chain: &[Vec<u8>]) -> Result<Validity, CertificateFault> {
    let read = |(index, der)| {
        let position = index + 1;
        let certificate = leaf::parse(der).ok_or(CertificateFault::Certificate { what: "chain", position })?;
        Ok((ChainPosition(position), certificate))
    };
    let mut others = chain.iter().map(Vec::as_slice).enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    if others.is_empty() {
        return Err(CertificateFault::NoCertificate { what: "certificate" });
    }
    let (position, mut last) = others.remove(0);
    let mut validity = of(position, &last);
    while let Some(index) = issuer(&last, &others) {
        // Each certificate is used once, so that two that name each other as issuer end the path.
        let (position, issuer) = others.swap_remove(index);
        validity = validity.within(of(position, &issuer));
        last = issuer;
    }
    Ok(validity)
}

/// Returns the index of the certificate that clients need besides `last`. Of several for the same issuer, it is the one
/// that is valid longest.
fn issuer(last: &X509Certificate<'_>, others: &[(ChainPosition, X509Certificate<'_>)]) -> Option<usize> {
    let named = |(_, (_, other)): &(usize, &(ChainPosition, X509Certificate<'_>))| {
        other.subject().as_raw() == last.issuer().as_raw()
    };
    let all = || others.iter().enumerate().filter(named);
    if is_self_signed(last) || all().any(|(_, (_, other))| is_self_signed(other)) {
        return None;
    }
    let longest = all().max_by_key(|(_, (_, other))| other.validity().not_after.timestamp());
    longest.map(|(index, _)| index)
}

fn is_self_signed(certificate: &X509Certificate<'_>) -> bool {
    certificate.subject().as_raw() == certificate.issuer().as_raw()
}

fn of(position: ChainPosition, certificate: &X509Certificate<'_>) -> Validity {
    let validity = certificate.validity();
    Validity::new(position, validity.not_before.timestamp(), validity.not_after.timestamp())
}
