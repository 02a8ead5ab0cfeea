//! `holdfast certgen`: the certificates of the xDS server and of the Envoys that read from it, made and renewed.
//!
//! Run again and again, it renews what has less than a third of its life left, and leaves alone what has not. Whoever
//! reads the files, Holdfast and Envoys, picks up new ones by itself. A new authority is trusted for a day before
//! anything is signed by it, and an old one until it expires: nobody meets a certificate that he cannot check yet.

mod arguments;
mod authority;
mod leaf;
mod place;
mod secrets;
mod shelf;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

pub use self::arguments::CertgenArgs;
use self::arguments::Wish;
use self::authority::Authorities;
use self::leaf::{Leaf, Role};
use self::place::Place;
use self::shelf::{Contents, Shelf};
use super::cli::DataFormat;
use super::failure::Failure;
use super::output;
use super::xds::credentials::{AUTHORITIES, Credentials, SDS_AUTHORITIES, SDS_CERTIFICATE};
use crate::identity::names;

/// Makes and renews.
///
/// # Errors
/// Where something cannot be made or written. What was written before that is whole.
pub fn run(args: CertgenArgs) -> Result<ExitCode, Failure> {
    let (wish, place) = args.wish()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let told = renew(&wish, &place, now)?;
    let text = if told.is_empty() { "nothing to renew\n".to_owned() } else { told.concat() };
    output::print(&text)
}

/// What was done, one line each.
fn renew(wish: &Wish, place: &Place, now: u64) -> anyhow::Result<Vec<String>> {
    let mut told = Vec::new();
    let shelf = place.authority();
    let before = shelf.read()?;
    let mut authorities = Authorities::read(&before)?;
    if let Some(line) = authorities.renew(now, wish.authority_life)? {
        told.push(line);
    }
    let after = authorities.contents(now);
    if after != before {
        shelf.write(&after)?;
    }
    let bundle = authorities.bundle(now);

    let server = Leaf { role: Role::Server(wish.server_names.clone()), life: wish.life };
    told.extend(put(&*place.server(), &server, &authorities, &bundle, None, now)?);
    for gateway in &wish.gateways {
        let (namespace, name) = gateway.split_once('/').unwrap_or_default();
        let uri = names::gateway_uri(&wish.trust_domain, namespace, name);
        let seen_at = match &wish.mount_path {
            Some(path) => path.clone(),
            None => place.seen_at(namespace, name)?,
        };
        let client = Leaf { role: Role::Gateway(uri), life: wish.life };
        told.extend(put(&*place.gateway(namespace, name), &client, &authorities, &bundle, Some(&seen_at), now)?);
    }
    Ok(told)
}

/// A certificate in its place, with whom its owner is to trust and how Envoy is told of both.
fn put(
    shelf: &dyn Shelf,
    leaf: &Leaf,
    authorities: &Authorities,
    bundle: &str,
    seen_at: Option<&std::path::Path>,
    now: u64,
) -> anyhow::Result<Option<String>> {
    let before = shelf.read()?;
    let mut after: Contents = before.clone();
    let told = leaf.renew(&mut after, authorities, now)?;
    after.insert(AUTHORITIES.into(), bundle.into());
    if let Some(folder) = seen_at {
        let yaml = |value| output::format(&value, DataFormat::Yaml).map(String::into_bytes);
        after.insert(SDS_CERTIFICATE.into(), yaml(Credentials::sds_certificate(folder))?);
        after.insert(SDS_AUTHORITIES.into(), yaml(Credentials::sds_authorities(folder))?);
    }
    if after != before {
        shelf.write(&after)?;
    }
    Ok(told)
}

#[cfg(test)]
mod tests;
