//! `holdfast certgen`: creates and renews the certificates of the xDS server and of its Envoys.
//!
//! The command is run periodically: it renews certificates with less than a third of their lifetime left, and leaves
//! the others unchanged. Holdfast and Envoy reload new files by themselves. A new authority is trusted for a day before
//! it signs, and an old one until it expires, so that no peer receives a certificate that it cannot verify yet.

mod arguments;
mod authority;
mod leaf;
mod place;
mod secrets;
mod shelf;
mod webhook;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_engine::identity::names;
use holdfast_envoy::bootstrap::credentials::{AUTHORITIES, Credentials, SDS_AUTHORITIES, SDS_CERTIFICATE};

pub use self::arguments::CertgenArgs;
use self::arguments::Wish;
use self::authority::Authorities;
use self::leaf::{CertificateRole, LeafCertificate};
use self::place::CertificateStorage;
use self::shelf::{Shelf, ShelfContents};
use crate::cli::DataFormat;
use crate::failure::Failure;
use crate::output;

/// Creates and renews certificates.
///
/// # Errors
/// Returns an error if a certificate cannot be made or written. Certificates that were written before the error are
/// complete.
pub fn run(args: CertgenArgs) -> Result<ExitCode, Failure> {
    let (wish, place) = args.wish()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let renewed = renew(&wish, &place, now)?;
    let text = if renewed.is_empty() { "nothing to renew\n".to_owned() } else { renewed.concat() };
    output::print(&text)
}

/// Renews everything that is due; returns a line for each renewal.
fn renew(wish: &Wish, place: &CertificateStorage, now: u64) -> anyhow::Result<Vec<String>> {
    let mut renewed = Vec::new();
    let shelf = place.authority();
    let before = shelf.read()?;
    let mut authorities = Authorities::read(&before)?;
    if let Some(line) = authorities.renew(now, wish.authority_life)? {
        renewed.push(line);
    }
    let after = authorities.contents(now);
    if after != before {
        shelf.write(&after)?;
    }
    let bundle = authorities.bundle(now);

    let server = LeafCertificate { role: CertificateRole::Server(wish.server_names.clone()), life: wish.life };
    renewed.extend(put(&*place.server(), &server, &authorities, &bundle, None, now)?);
    for gateway in &wish.gateways {
        let (namespace, name) = gateway.split_once('/').unwrap_or_default();
        let uri = names::gateway_uri(&wish.trust_domain, namespace, name);
        let seen_at = match &wish.mount_path {
            Some(path) => path.clone(),
            None => place.seen_at(namespace, name)?,
        };
        let client = LeafCertificate { role: CertificateRole::Gateway(uri), life: wish.life };
        renewed.extend(put(&*place.gateway(namespace, name), &client, &authorities, &bundle, Some(&seen_at), now)?);
    }
    // Last: a configuration that does not exist yet must not keep the servers from their certificates.
    if let Some(configuration) = &wish.webhook_configuration {
        renewed.extend(place.trust(configuration, &bundle)?);
    }
    Ok(renewed)
}

/// Writes a certificate with the authorities that its owner trusts and, for an Envoy, the SDS files that refer to both.
fn put(
    shelf: &dyn Shelf,
    leaf: &LeafCertificate,
    authorities: &Authorities,
    bundle: &str,
    seen_at: Option<&std::path::Path>,
    now: u64,
) -> anyhow::Result<Option<String>> {
    let before = shelf.read()?;
    let mut after: ShelfContents = before.clone();
    let renewed = leaf.renew(&mut after, authorities, now)?;
    after.insert(AUTHORITIES.into(), bundle.into());
    if let Some(folder) = seen_at {
        let yaml = |value| output::format(&value, DataFormat::Yaml).map(String::into_bytes);
        after.insert(SDS_CERTIFICATE.into(), yaml(Credentials::sds_certificate(folder))?);
        after.insert(SDS_AUTHORITIES.into(), yaml(Credentials::sds_authorities(folder))?);
    }
    if after != before {
        shelf.write(&after)?;
    }
    Ok(renewed)
}

#[cfg(test)]
mod tests;
