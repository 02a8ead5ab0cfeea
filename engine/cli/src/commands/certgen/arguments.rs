//! Flags of `holdfast certgen`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use holdfast_check::duration;
use holdfast_engine::identity::names;

use super::place::{self, CertificateStorage};
use super::secrets::Secrets;
use crate::arguments::{GatewayName, SecretName};
use crate::failure::Failure;
use crate::xds::arguments::trust_domain;

/// Minimum lifetime: a certificate with a shorter one could not be renewed in time.
const LIFE_MIN: Duration = Duration::from_secs(3600);

/// `holdfast certgen`.
#[derive(Debug, Args)]
pub struct CertgenArgs {
    /// Folder for the certificates: authority/ (keep it private), server/, gateways/NAMESPACE_NAME/
    #[arg(long, env = "CONTROLLER_OUT", value_name = "DIR", conflicts_with = "secret")]
    #[arg(required_unless_present = "secret")]
    pub out: Option<PathBuf>,
    /// Secret for the server's certificate, written through the API server instead of to a folder. The Secret of the
    /// authority is called NAME-authority in the same namespace (keep it private), that of a Gateway
    /// GATEWAY-holdfast-xds in the Gateway's namespace
    #[arg(long, env = "CONTROLLER_SECRET", value_name = "NAMESPACE/NAME")]
    pub secret: Option<SecretName>,
    /// Connection to the API server [default: the Pod's ServiceAccount, else $KUBECONFIG or ~/.kube/config]
    #[arg(long, env = "CONTROLLER_KUBECONFIG", value_name = "FILE", requires = "secret")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, env = "CONTROLLER_KUBE_CONTEXT", value_name = "NAME", requires = "secret")]
    pub kube_context: Option<String>,
    /// Names or addresses by which Envoys reach the xDS server
    #[arg(long, env = "CONTROLLER_SERVER_NAME", value_name = "NAME", required = true, value_delimiter = ',')]
    pub server_name: Vec<String>,
    /// Gateways with Envoys that need a certificate
    #[arg(long, env = "CONTROLLER_GATEWAY", value_name = "NAMESPACE/NAME", value_delimiter = ',')]
    pub gateway: Vec<GatewayName>,
    /// ValidatingWebhookConfiguration with webhooks of Holdfast: its caBundle becomes the authorities that sign the
    /// server's certificate
    #[arg(long, env = "CONTROLLER_WEBHOOK_CONFIGURATION", value_name = "NAME", requires = "secret")]
    pub webhook_configuration: Option<String>,
    /// Trust domain in the URIs of the Gateways' certificates, as in --xds-trust-domain
    #[arg(long, env = "CONTROLLER_TRUST_DOMAIN", value_name = "DOMAIN", default_value = names::TRUST_DOMAIN)]
    #[arg(value_parser = trust_domain)]
    pub trust_domain: String,
    /// Path at which an Envoy sees its folder or its Secret [default: the path of the folder; for a Secret
    /// /etc/holdfast/xds]
    #[arg(long, env = "CONTROLLER_MOUNT_PATH", value_name = "DIR")]
    pub mount_path: Option<PathBuf>,
    /// Lifetime of certificates; a certificate with less than a third of it left is renewed
    #[arg(long, env = "CONTROLLER_LIFETIME", value_name = "DURATION", default_value = "2160h", value_parser = life)]
    pub lifetime: Duration,
    /// Lifetime of the authority
    #[arg(long, env = "CONTROLLER_AUTHORITY_LIFETIME", value_name = "DURATION", default_value = "87600h")]
    #[arg(value_parser = life)]
    pub authority_lifetime: Duration,
}

/// The desired certificates; lifetimes in seconds.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) server_names: Vec<String>,
    pub(super) gateways: Vec<String>,
    pub(super) webhook_configuration: Option<String>,
    pub(super) trust_domain: String,
    pub(super) mount_path: Option<PathBuf>,
    pub(super) life: u64,
    pub(super) authority_life: u64,
}

impl CertgenArgs {
    /// Returns the desired certificates, and where to keep them.
    ///
    /// # Errors
    /// Returns an error if the flags contradict each other, or if no API server is configured.
    pub(super) fn wish(self) -> Result<(Wish, CertificateStorage), Failure> {
        if self.mount_path.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err(Failure::usage("--mount-path: the path must be absolute, as the Envoy sees it"));
        }
        if self.authority_lifetime <= self.lifetime {
            return Err(Failure::usage("--authority-lifetime must be longer than --lifetime"));
        }
        let wish = Wish {
            server_names: self.server_name,
            gateways: self.gateway.into_iter().map(|gateway| gateway.0).collect(),
            webhook_configuration: self.webhook_configuration,
            trust_domain: self.trust_domain,
            mount_path: self.mount_path,
            life: self.lifetime.as_secs(),
            authority_life: self.authority_lifetime.as_secs(),
        };
        let place = match (self.out, self.secret) {
            (Some(folder), _) => CertificateStorage::Folder(folder),
            (None, Some(secret)) => {
                let server = secret.key();
                place::check_names(&server, &wish.gateways)?;
                let secrets = Box::new(Secrets::of(self.kubeconfig.as_deref(), self.kube_context.as_deref())?);
                CertificateStorage::Secrets { secrets, server }
            }
            (None, None) => return Err(Failure::usage("name a destination: --out or --secret")),
        };
        Ok((wish, place))
    }
}

fn life(text: &str) -> Result<Duration, String> {
    let life = duration::duration(text).map_err(|fault| fault.to_string())?;
    if life < LIFE_MIN {
        Err(format!("the lifetime must be at least {} hour", LIFE_MIN.as_secs() / 3600))
    } else {
        Ok(life)
    }
}
