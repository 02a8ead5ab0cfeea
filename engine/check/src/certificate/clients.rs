//! Validation data for client certificates: certificate authorities and certificate revocation lists.
//!
//! Envoy reads every block of both texts, including blocks of other types, and revocation lists among the authorities
//! count. With a revocation text without any list, Envoy would refuse every client.

use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::{BUNDLE_BYTES_MAX, Bundle, CertificateFault, check_ca_bundle, pem, within};

/// Maximum size of certificate revocation lists, in bytes.
pub const REVOCATIONS_BYTES_MAX: usize = 1024 * 1024;

/// The PEM label of a certificate revocation list.
const REVOCATIONS: &str = "X509 CRL";

/// Checks the certificate authorities for clients (`ca.crt`), as PEM text.
pub fn check_client_authorities(text: &[u8]) -> Result<Bundle, CertificateFault> {
    let bundle = check_ca_bundle(text)?;
    lists("bundle", text, BUNDLE_BYTES_MAX)?;
    Ok(bundle)
}

/// Checks certificate revocation lists (`crl.pem`), as PEM text, and returns their number.
pub fn check_revocations(text: &[u8]) -> Result<usize, CertificateFault> {
    match lists("revocation list", text, REVOCATIONS_BYTES_MAX)? {
        0 => Err(CertificateFault::NoRevocations),
        count => Ok(count),
    }
}

/// Returns the number of revocation lists in a text; each must be valid.
fn lists(what: &'static str, text: &[u8], limit: usize) -> Result<usize, CertificateFault> {
    within(what, text, limit)?;
    let mut count = 0;
    for section in pem::sections(text) {
        let section = section.map_err(|fault| CertificateFault::Pem { what, fault })?;
        // These texts appear on pages.
        if section.label.ends_with("PRIVATE KEY") {
            return Err(CertificateFault::HoldsKey { what });
        }
        if section.label != REVOCATIONS {
            continue;
        }
        count += 1;
        match CertificateRevocationList::from_der(&section.content) {
            Ok(([], _)) if !section.encrypted => {}
            _ => return Err(CertificateFault::Revocations { position: count }),
        }
    }
    Ok(count)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;
    use rcgen::{
        BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer, KeyIdMethod, KeyPair,
        KeyUsagePurpose, SerialNumber,
    };

    use super::*;

    fn authority() -> (String, String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).unwrap().pem();
        let key_pem = key.serialize_pem();
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2026, 1, 1),
            next_update: rcgen::date_time_ymd(2126, 1, 1),
            crl_number: SerialNumber::from(1u64),
            issuing_distribution_point: None,
            revoked_certs: Vec::new(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&Issuer::new(params, key)).unwrap().pem().unwrap();
        (certificate, list, key_pem)
    }

    #[test]
    fn what_envoy_can_use_is_taken() {
        let (certificate, list, key) = authority();
        assert_eq!(check_client_authorities(certificate.as_bytes()).unwrap().validities.len(), 1);
        assert_eq!(check_revocations(list.as_bytes()), Ok(1));
        assert_eq!(check_revocations(format!("{list}\n{list}").as_bytes()), Ok(2));
        let both = format!("{certificate}{list}");
        assert!(check_client_authorities(both.as_bytes()).is_ok());
        let garbled = "-----BEGIN X509 CRL-----\nAQID\n-----END X509 CRL-----\n";
        assert_eq!(check_revocations(garbled.as_bytes()), Err(CertificateFault::Revocations { position: 1 }));
        assert!(check_client_authorities(format!("{certificate}{garbled}").as_bytes()).is_err());
        assert_eq!(check_revocations(certificate.as_bytes()), Err(CertificateFault::NoRevocations));
        assert_eq!(check_revocations(b""), Err(CertificateFault::NoRevocations));
        let what = "revocation list";
        assert_eq!(check_revocations(format!("{list}{key}").as_bytes()), Err(CertificateFault::HoldsKey { what }));
        assert!(check_client_authorities(format!("{certificate}{key}").as_bytes()).is_err());
        assert!(check_client_authorities(list.as_bytes()).is_err());
    }

    /// Removes the version of a certificate, which makes it one of version 1. Its signature does not matter here.
    fn of_version_1(certificate: &str) -> String {
        const VERSION: [u8; 5] = [0xa0, 3, 2, 1, 2];
        let body: String = certificate.lines().filter(|line| !line.starts_with("-----")).collect();
        let mut der = STANDARD.decode(body).unwrap();
        let at = der.windows(VERSION.len()).position(|window| window == VERSION).unwrap();
        der.drain(at..at + VERSION.len());
        // The two lengths before it have two bytes each.
        for length in [at - 2, at - 6] {
            let shorter = u16::from_be_bytes([der[length], der[length + 1]]) - VERSION.len() as u16;
            der[length..length + 2].copy_from_slice(&shorter.to_be_bytes());
        }
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(der))
    }

    #[test]
    fn extensions_are_of_version_3() {
        let (certificate, ..) = authority();
        let refused = check_client_authorities(of_version_1(&certificate).as_bytes());
        assert_eq!(refused, Err(CertificateFault::Certificate { what: "bundle", position: 1 }));
    }

    proptest! {
        #[test]
        fn never_panics(content in prop::collection::vec(any::<u8>(), 0..120)) {
            let text = STANDARD.encode(content);
            let text = format!("-----BEGIN X509 CRL-----\n{text}\n-----END X509 CRL-----\n");
            let _ = check_revocations(text.as_bytes());
        }
    }
}
