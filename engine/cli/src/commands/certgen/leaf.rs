//! Certificates of the xDS server and of a Gateway's Envoys: renewal check and creation.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use holdfast_check::certificate::check_pair;
use holdfast_envoy::bootstrap::credentials::{CERTIFICATE, KEY};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
    date_time_ymd,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;

use super::authority::Authorities;
use super::shelf::ShelfContents;

/// Backdating of new certificates, in seconds: tolerance for peers with a slow clock.
pub(super) const DIFFER: u64 = 300;

/// The desired properties of a certificate.
#[derive(Debug)]
pub(super) struct LeafCertificate {
    pub(super) role: CertificateRole,
    /// Lifetime, in seconds.
    pub(super) life: u64,
}

/// The owner of a certificate.
#[derive(Debug)]
pub(super) enum CertificateRole {
    /// The xDS server, with its names.
    Server(Vec<String>),
    /// The Envoys of a Gateway, with the Gateway's URI.
    Gateway(String),
}

impl LeafCertificate {
    /// Replaces the certificate if it is due or differs from the desired properties. Returns a line for the report if
    /// it was replaced.
    pub(super) fn renew(
        &self,
        contents: &mut ShelfContents,
        authorities: &Authorities,
        now: u64,
    ) -> Result<Option<String>> {
        let (issuer, signer, signer_ends) = authorities.signer(now)?;
        if self.is_fine(contents, signer, now) == Some(true) {
            return Ok(None);
        }
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, self.kind());
        params.subject_alt_names = self.names()?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match self.role {
            CertificateRole::Server(_) => ExtendedKeyUsagePurpose::ServerAuth,
            CertificateRole::Gateway(_) => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        params.use_authority_key_identifier_extension = true;
        let epoch = date_time_ymd(1970, 1, 1);
        params.not_before = epoch + Duration::from_secs(now.saturating_sub(DIFFER));
        params.not_after = epoch + Duration::from_secs((now + self.life).min(signer_ends));
        let certificate = params.signed_by(&key, &issuer)?;
        contents.insert(KEY.into(), key.serialize_pem().into());
        contents.insert(CERTIFICATE.into(), certificate.pem().into());
        Ok(Some(match &self.role {
            CertificateRole::Server(names) => {
                format!("created the certificate of the xDS server {}\n", names.join(", "))
            }
            CertificateRole::Gateway(uri) => format!("created the certificate of {uri}\n"),
        }))
    }

    fn is_fine(&self, contents: &ShelfContents, signer: &[u8], now: u64) -> Option<bool> {
        let (certificate, key) = (contents.get(CERTIFICATE)?, contents.get(KEY)?);
        check_pair(certificate, key).ok()?;
        let (_, pem) = parse_x509_pem(certificate).ok()?;
        let found = pem.parse_x509().ok()?;
        let (_, signer) = parse_x509_pem(signer).ok()?;
        let signer = signer.parse_x509().ok()?;
        // Compared by key: two authorities that were made in the same second have the same name.
        let by_signer = signed_by(&found)? == key_of(&signer)?;
        let (from, until) = validity(certificate)?;
        let names = found.subject_alternative_name().ok()??;
        let mut names: Vec<String> = names.value.general_names.iter().filter_map(shown).collect();
        names.sort();
        let mut wanted = match &self.role {
            CertificateRole::Server(names) => names.clone(),
            CertificateRole::Gateway(uri) => vec![uri.clone()],
        };
        wanted.sort();
        wanted.dedup();
        Some(by_signer && names == wanted && !is_due(from, until, now))
    }

    fn kind(&self) -> &'static str {
        match self.role {
            CertificateRole::Server(_) => "holdfast xds server",
            CertificateRole::Gateway(_) => "holdfast gateway",
        }
    }

    fn names(&self) -> Result<Vec<SanType>> {
        match &self.role {
            CertificateRole::Gateway(uri) => Ok(vec![SanType::URI(uri.as_str().try_into()?)]),
            CertificateRole::Server(names) => {
                let mut names = names.clone();
                names.sort();
                names.dedup();
                let name = |name: &String| match name.parse::<IpAddr>() {
                    Ok(address) => Ok(SanType::IpAddress(address)),
                    Err(_) => name
                        .as_str()
                        .try_into()
                        .map(SanType::DnsName)
                        .with_context(|| format!("--server-name {name:?}: expected a DNS name or an IP address")),
                };
                names.iter().map(name).collect()
            }
        }
    }
}

/// The identifier of the key that signed a certificate, as the certificate states it.
fn signed_by<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(found) => Some(found.key_identifier.as_ref()?.0),
        _ => None,
    })
}

/// The identifier of an authority's key, by which certificates refer to it.
fn key_of<'a>(authority: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    authority.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(found) => Some(found.0),
        _ => None,
    })
}

/// Returns whether less than a third of the lifetime is left.
pub(super) fn is_due(from: u64, until: u64, now: u64) -> bool {
    let life = until.saturating_sub(from);
    until.saturating_sub(now).saturating_mul(3) < life
}

/// Start and end of the validity of a PEM certificate, in seconds since 1970.
pub(super) fn validity(pem: &[u8]) -> Option<(u64, u64)> {
    let (_, pem) = parse_x509_pem(pem).ok()?;
    let certificate = pem.parse_x509().ok()?;
    let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).ok();
    Some((seconds(certificate.validity().not_before)?, seconds(certificate.validity().not_after)?))
}

fn shown(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::URI(uri) => Some((*uri).to_owned()),
        GeneralName::IPAddress(bytes) => match (<[u8; 4]>::try_from(*bytes), <[u8; 16]>::try_from(*bytes)) {
            (Ok(v4), _) => Some(IpAddr::from(v4).to_string()),
            (_, Ok(v6)) => Some(IpAddr::from(v6).to_string()),
            _ => None,
        },
        _ => None,
    }
}
