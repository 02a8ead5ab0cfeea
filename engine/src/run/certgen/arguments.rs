//! Flags of `holdfast certgen`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::place::{self, Place};
use super::secrets::Secrets;
use crate::check::duration;
use crate::identity::names;
use crate::run::arguments::{GatewayName, SecretName};
use crate::run::failure::Failure;
use crate::run::xds::arguments::trust_domain;

/// Shorter lives could not be renewed in time.
const LIFE_MIN: Duration = Duration::from_secs(3600);

/// `holdfast certgen`.
#[derive(Debug, Args)]
pub struct CertgenArgs {
    /// Folder for the certificates: authority/ (keep it to yourself), server/, gateways/NAMESPACE_NAME/
    #[arg(long, env = "CONTROLLER_OUT", value_name = "DIR", conflicts_with = "secret")]
    #[arg(required_unless_present = "secret")]
    pub out: Option<PathBuf>,
    /// Secret of an API server for the server's certificate, instead of a folder; that of the authority is called
    /// NAME-authority beside it (keep it to yourself), that of a Gateway GATEWAY-holdfast-xds in its namespace
    #[arg(long, env = "CONTROLLER_SECRET", value_name = "NAMESPACE/NAME")]
    pub secret: Option<SecretName>,
    /// How the API server is reached [default: the Pod's ServiceAccount, else $KUBECONFIG or ~/.kube/config]
    #[arg(long, env = "CONTROLLER_KUBECONFIG", value_name = "FILE", requires = "secret")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, env = "CONTROLLER_KUBE_CONTEXT", value_name = "NAME", requires = "secret")]
    pub kube_context: Option<String>,
    /// Names or addresses by which Envoys reach the xDS server
    #[arg(long, env = "CONTROLLER_SERVER_NAME", value_name = "NAME", required = true, value_delimiter = ',')]
    pub server_name: Vec<String>,
    /// Gateways whose Envoys need a certificate
    #[arg(long, env = "CONTROLLER_GATEWAY", value_name = "NAMESPACE/NAME", value_delimiter = ',')]
    pub gateway: Vec<GatewayName>,
    /// The domain in the URIs of their certificates, as of --xds-trust-domain
    #[arg(long, env = "CONTROLLER_TRUST_DOMAIN", value_name = "DOMAIN", default_value = names::TRUST_DOMAIN)]
    #[arg(value_parser = trust_domain)]
    pub trust_domain: String,
    /// Where an Envoy will see its folder, or its Secret [default: where it is written; of a Secret /etc/holdfast/xds]
    #[arg(long, env = "CONTROLLER_MOUNT_PATH", value_name = "DIR")]
    pub mount_path: Option<PathBuf>,
    /// How long certificates live; what has less than a third of it left is renewed
    #[arg(long, env = "CONTROLLER_LIFETIME", value_name = "DURATION", default_value = "2160h", value_parser = life)]
    pub lifetime: Duration,
    /// How long the authority lives
    #[arg(long, env = "CONTROLLER_AUTHORITY_LIFETIME", value_name = "DURATION", default_value = "87600h")]
    #[arg(value_parser = life)]
    pub authority_lifetime: Duration,
}

/// What is to be there; lives in seconds.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) server_names: Vec<String>,
    pub(super) gateways: Vec<String>,
    pub(super) trust_domain: String,
    pub(super) mount_path: Option<PathBuf>,
    pub(super) life: u64,
    pub(super) authority_life: u64,
}

impl CertgenArgs {
    /// What is to be there, and where.
    ///
    /// # Errors
    /// Where the flags contradict each other, or there is no API server to ask.
    pub(super) fn wish(self) -> Result<(Wish, Place), Failure> {
        if self.mount_path.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err(Failure::usage("--mount-path: the path must be absolute, as the Envoy sees it"));
        }
        if self.authority_lifetime <= self.lifetime {
            return Err(Failure::usage("--authority-lifetime must be longer than --lifetime"));
        }
        let wish = Wish {
            server_names: self.server_name,
            gateways: self.gateway.into_iter().map(|gateway| gateway.0).collect(),
            trust_domain: self.trust_domain,
            mount_path: self.mount_path,
            life: self.lifetime.as_secs(),
            authority_life: self.authority_lifetime.as_secs(),
        };
        let place = match (self.out, self.secret) {
            (Some(folder), _) => Place::Folder(folder),
            (None, Some(secret)) => {
                let server = secret.key();
                place::check_names(&server, &wish.gateways)?;
                let secrets = Box::new(Secrets::of(self.kubeconfig.as_deref(), self.kube_context.as_deref())?);
                Place::Secrets { secrets, server }
            }
            (None, None) => return Err(Failure::usage("say where: --out or --secret")),
        };
        Ok((wish, place))
    }
}

fn life(text: &str) -> Result<Duration, String> {
    let life = duration::duration(text).map_err(|fault| fault.to_string())?;
    if life < LIFE_MIN { Err(format!("at least {} hour", LIFE_MIN.as_secs() / 3600)) } else { Ok(life) }
}
