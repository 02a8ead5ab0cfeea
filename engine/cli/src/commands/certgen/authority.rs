//! Certificate authorities: the trusted ones, and the one that signs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use holdfast_envoy::bootstrap::credentials::AUTHORITIES;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

use super::leaf::{self, DIFFER};
use super::shelf::ShelfContents;

/// How long a new authority is only trusted before it signs, in seconds, so that every reader has loaded it by then.
pub(super) const TRUSTED_FIRST: u64 = 24 * 3600;

/// All authorities by creation time (seconds since 1970), which is also the name of an authority.
#[derive(Debug)]
pub(super) struct Authorities(BTreeMap<u64, CertificateAuthority>);

#[derive(Debug)]
struct CertificateAuthority {
    pem: String,
    key_pem: String,
    not_after: u64,
}

impl Authorities {
    /// Reads the authorities on a shelf. Ignores other content.
    pub(super) fn read(contents: &ShelfContents) -> Result<Self> {
        let mut all = BTreeMap::new();
        for (name, pem) in contents {
            let Some(made) = name.strip_suffix(".crt").and_then(|made| made.parse().ok()) else { continue };
            let key_pem = contents
                .get(&format!("{made}.key"))
                .context("a certificate authority has no private key beside its certificate")?;
            let text =
                |bytes: &[u8]| String::from_utf8(bytes.to_vec()).context("a certificate authority is not valid UTF-8");
            let (_, not_after) = leaf::validity(pem).context("the certificate of an authority is not valid")?;
            all.insert(made, CertificateAuthority { pem: text(pem)?, key_pem: text(key_pem)?, not_after });
        }
        Ok(Self(all))
    }

    /// Creates another authority if the newest has less than a third of its lifetime left.
    pub(super) fn renew(&mut self, now: u64, life: u64) -> Result<Option<String>> {
        if self.0.last_key_value().is_some_and(|(made, newest)| !leaf::is_due(*made, newest.not_after, now)) {
            return Ok(None);
        }
        let key = KeyPair::generate()?;
        let mut params = params(now);
        params.not_before = date_time_ymd(1970, 1, 1) + Duration::from_secs(now.saturating_sub(DIFFER));
        params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(now + life);
        let pem = params.self_signed(&key)?.pem();
        self.0.insert(now, CertificateAuthority { pem, key_pem: key.serialize_pem(), not_after: now + life });
        Ok(Some("created a certificate authority\n".to_owned()))
    }

    /// The shelf content: the authorities that have not expired.
    pub(super) fn contents(&self, now: u64) -> ShelfContents {
        let mut contents = ShelfContents::new();
        for (made, authority) in self.current(now) {
            contents.insert(format!("{made}.key"), authority.key_pem.clone().into());
            contents.insert(format!("{made}.crt"), authority.pem.clone().into());
        }
        contents.insert(AUTHORITIES.into(), self.bundle(now).into());
        contents
    }

    /// All trusted authorities as PEM, newest first.
    pub(super) fn bundle(&self, now: u64) -> String {
        self.current(now).rev().fold(String::new(), |mut all, (_, authority)| {
            // Writing to a String cannot fail.
            let _ = writeln!(all, "{}", authority.pem.trim_end());
            all
        })
    }

    /// The authority that signs now, with its certificate and the time at which it expires.
    pub(super) fn signer(&self, now: u64) -> Result<(Issuer<'static, KeyPair>, &[u8], u64)> {
        let is_known = |(made, _): &(&u64, &CertificateAuthority)| **made + TRUSTED_FIRST <= now;
        let signer = self.current(now).rev().find(is_known).or_else(|| self.current(now).next());
        let (made, authority) = signer.context("all certificate authorities have expired")?;
        // The parse error is dropped, since it could contain parts of the key.
        let key = KeyPair::from_pem(&authority.key_pem).ok().context("the private key of an authority is not valid")?;
        Ok((Issuer::new(params(*made), key), authority.pem.as_bytes(), authority.not_after))
    }

    fn current(&self, now: u64) -> impl DoubleEndedIterator<Item = (&u64, &CertificateAuthority)> {
        self.0.iter().filter(move |(_, authority)| authority.not_after > now)
    }
}

fn name(made: u64) -> String {
    format!("holdfast xds authority {made}")
}

fn params(made: u64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name(made));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}
