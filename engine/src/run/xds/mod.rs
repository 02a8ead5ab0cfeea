//! The xDS server's door: where it listens, what it is opened with, and who is let in.
//!
//! Without TLS every client is believed which Gateway it is of, so that only this host's users may reach it. With TLS a
//! client proves it, by a certificate or a token ([`doorkeeper`]); what is proven is read in [`crate::identity`].
//! Certificates, authorities and keys are followed where their files change ([`material`], [`keys`]): what is new counts
//! for new connections and streams, and what is broken changes nothing and is told.

pub mod arguments;
pub mod credentials;
mod doorkeeper;
pub mod keys;
mod material;

use std::sync::Arc;

use anyhow::Context;
use holdfast_xds::Bound;

use self::arguments::{Protected, Protection, Tokens};
use self::doorkeeper::Keeper;
use self::keys::{FileKeys, Follower, KeySource};
use self::material::Files;
use super::arguments::Listen;
use super::cli::RunArgs;
use super::data::DataDir;
use super::failure::Failure;

/// The file of the data folder in which the keys of tokens are kept.
const KEPT_KEYS: &str = "token-keys.json";

/// Listens as the flags say; files are followed from now on.
///
/// # Errors
/// Where the flags contradict each other, files cannot be used, or nobody can listen there.
pub async fn bind(args: &RunArgs, data: &DataDir, remote_keys: Option<impl KeySource>) -> Result<Bound, Failure> {
    let protection = args.xds.protection(args.envoys(), remote_keys.is_some())?;
    let listen = match &args.xds.xds_listen {
        Some(listen) => match &listen.0 {
            Listen::Unix(path) => holdfast_xds::Listen::Unix(path.clone()),
            Listen::Tcp(address) => holdfast_xds::Listen::Tcp(*address),
        },
        None => holdfast_xds::Listen::Unix(data.socket("xds.sock")?),
    };
    let protected = match protection {
        Protection::None => None,
        Protection::Insecure(address) => {
            tracing::warn!(%address, "--insecure-xds: whoever reaches this address can read the private keys of every Gateway");
            None
        }
        Protection::Tls(protected) => Some(guard(*protected, data, remote_keys).await?),
    };
    let bound = holdfast_xds::bind(listen).context("--xds-listen")?;
    Ok(match protected {
        Some((tls, keeper)) => bound.guard(tls, Arc::new(keeper)),
        None => bound,
    })
}

async fn guard(
    protected: Protected,
    data: &DataDir,
    remote_keys: Option<impl KeySource>,
) -> Result<(holdfast_xds::TlsSource, Keeper), Failure> {
    let Protected { certificate, key, client_ca, trust_domain, tokens } = protected;
    let files = Files { certificate, key, client_ca, others_have_tokens: tokens.is_some() };
    let (tls, clients) = material::follow(files)?;
    let tokens = match tokens {
        Some(Tokens { rules, key_set: Some(path) }) => Some((rules, Follower::of_file(FileKeys(path)).start().await?)),
        Some(Tokens { rules, key_set: None }) => {
            let source = remote_keys.context("there is nobody to ask for the keys of tokens")?;
            Some((rules, Follower::of_remote(source, data.path().join(KEPT_KEYS)).start().await?))
        }
        None => None,
    };
    Ok((tls, Keeper::new(trust_domain, clients, tokens)))
}
