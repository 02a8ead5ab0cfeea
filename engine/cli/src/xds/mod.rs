//! Access to the xDS server: its listen address, certificates, and the authentication of clients.
//!
//! Without TLS every client is trusted about its Gateway, so only users of this host may reach the server. With TLS a
//! client proves its Gateway by a certificate or a token ([`authenticator`]); [`holdfast_engine::identity`] reads the
//! proofs. Managed Envoys read from a unix socket in the data folder, also if others read over TCP: a local process that
//! connects over TCP is never taken for a managed Envoy. Certificates, authorities and keys are reloaded when their files change ([`material`], [`keys`]): new
//! contents apply to new connections and streams, and invalid contents change nothing and are logged.

pub mod arguments;
mod authenticator;
pub mod credentials;
pub mod keys;
pub(crate) mod material;

use std::sync::Arc;

use anyhow::Context;
use holdfast_xds::Bound;

use self::arguments::{Protected, ServerProtection, Tokens};
use self::authenticator::ClientAuthenticator;
use self::keys::{FileKeys, Follower, KeySetSource};
use self::material::{ServerFlags, TlsFiles};
use super::arguments::ListenAddress;
use super::cli::EnvoyMode;
use super::commands::run::RunArgs;
use super::data::DataDir;
use super::failure::Failure;

/// The socket in the data folder: of the server by default, and of managed Envoys if the server has a TCP address. The
/// name is constant, so that the next run adopts Envoys.
const SOCKET: &str = "xds.sock";
/// The flags of the files, for messages.
const FLAGS: ServerFlags =
    ServerFlags { certificate: "--xds-tls-cert", key: "--xds-tls-key", server: "xDS server", protocol: b"h2" };
/// The file of the data folder in which the keys of tokens are kept.
const KEPT_KEYS: &str = "token-keys.json";

/// Listens as the flags specify, and follows the files from now on.
///
/// # Errors
/// Returns an error if the flags contradict each other, files are unusable, or the address cannot be bound.
pub async fn bind(args: &RunArgs, data: &DataDir, remote_keys: Option<impl KeySetSource>) -> Result<Bound, Failure> {
    let protection = args.xds.protection(args.envoys(), remote_keys.is_some())?;
    let listen = match &args.xds.xds_listen {
        Some(listen) => match &listen.0 {
            ListenAddress::Unix(path) => holdfast_xds::Listen::Unix(path.clone()),
            ListenAddress::Tcp(address) => holdfast_xds::Listen::Tcp(*address),
        },
        None => holdfast_xds::Listen::Unix(data.socket(SOCKET)?),
    };
    let protected = match protection {
        ServerProtection::None => None,
        ServerProtection::Insecure(address) => {
            tracing::warn!(%address, "--insecure-xds: any client that reaches this address can read the private keys of every Gateway");
            None
        }
        ServerProtection::Tls(protected) => Some(guard(*protected, data, remote_keys).await?),
    };
    let mut bound = holdfast_xds::bind(listen).context("--xds-listen")?;
    if args.envoys() == EnvoyMode::Managed && bound.address().tcp().is_some() {
        bound = bound.with_managed_socket(data.socket(SOCKET)?).context("--data-dir")?;
    }
    Ok(match protected {
        Some((tls, authenticator)) => bound.guard(tls, Arc::new(authenticator)),
        None => bound,
    })
}

async fn guard(
    protected: Protected,
    data: &DataDir,
    remote_keys: Option<impl KeySetSource>,
) -> Result<(holdfast_xds::TlsSource, ClientAuthenticator), Failure> {
    let Protected { certificate, key, client_ca, trust_domain, tokens } = protected;
    let files = TlsFiles { flags: FLAGS, certificate, key, client_ca, others_have_tokens: tokens.is_some() };
    let (tls, clients) = material::follow(files)?;
    let tokens = match tokens {
        Some(Tokens { rules, key_set: Some(path) }) => Some((rules, Follower::of_file(FileKeys(path)).start().await?)),
        Some(Tokens { rules, key_set: None }) => {
            let source = remote_keys.context("there is no source of keys for tokens")?;
            Some((rules, Follower::of_remote(source, data.path().join(KEPT_KEYS)).start().await?))
        }
        None => None,
    };
    Ok((tls, ClientAuthenticator::new(trust_domain, clients, tokens)))
}
