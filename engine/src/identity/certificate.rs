//! Client certificates: the Gateway that a certificate belongs to.
//!
//! The chain of trust of the certificate is verified before, in another module.

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::{Unproven, VerifiedIdentity, names};

/// Returns the Gateway that a trusted certificate names in its only URI. Other subject alternative names are ignored.
///
/// # Errors If the certificate names no Gateway, or has several URIs.
pub fn proof(der: &[u8], trust_domain: &str) -> Result<VerifiedIdentity, Unproven> {
    let unreadable = Unproven::Unreadable("certificate");
    let Ok(([], certificate)) = X509Certificate::from_der(der) else { return Err(unreadable) };
    let Ok(names) = certificate.subject_alternative_name() else { return Err(unreadable) };
    let names = names.iter().flat_map(|names| &names.value.general_names);
    let mut uris = names.filter_map(|name| match name {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    let gateway = match (uris.next(), uris.next()) {
        (Some(uri), None) => names::gateway_of_uri(uri, trust_domain),
        _ => None,
    };
    let gateway = gateway.ok_or_else(|| Unproven::NotOneGateway { trust_domain: trust_domain.to_owned() })?;
    let until = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
    Ok(VerifiedIdentity { gateway, until })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType, date_time_ymd};

    use super::*;
    use crate::identity::names::TRUST_DOMAIN;

    fn certificate(names: &[&str], uris: &[&str]) -> Vec<u8> {
        let mut params = CertificateParams::new(names.iter().map(|name| (*name).into()).collect::<Vec<_>>()).unwrap();
        params.subject_alt_names.extend(uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())));
        params.not_after = date_time_ymd(2030, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_one_uri_names_the_gateway() {
        let uri = "spiffe://holdfast.dev/gateway/infra/public";
        let proof_of = |names: &[&str], uris: &[&str]| proof(&certificate(names, uris), TRUST_DOMAIN);
        let expected = VerifiedIdentity { gateway: "infra/public".into(), until: 1_893_456_000 };
        assert_eq!(proof_of(&["anything.example"], &[uri]), Ok(expected));
        let other = "spiffe://holdfast.dev/gateway/infra/other";
        for uris in [&[][..], &[uri, other], &[uri, uri], &["https://x.example"], &[uri, "https://x.example"]] {
            assert!(matches!(proof_of(&["infra.public"], uris), Err(Unproven::NotOneGateway { .. })), "{uris:?}");
        }
        assert!(proof(&certificate(&[], &[uri]), "other.example").is_err());
        let whole = certificate(&[], &[uri]);
        for end in [0, 1, whole.len() - 1] {
            assert_eq!(proof(&whole[..end], TRUST_DOMAIN), Err(Unproven::Unreadable("certificate")));
        }
        assert!(proof(&[&whole[..], &[0]].concat(), TRUST_DOMAIN).is_err());
    }
}
