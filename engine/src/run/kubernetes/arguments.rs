//! Flags about the API server.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kube::Client;

use super::client;
use crate::apis::decode::NAME_BYTES_MAX;
use crate::run::failure::Failure;

/// Whom to ask, and about what.
#[derive(Clone, Debug, Args)]
pub struct KubernetesArgs {
    /// How the API server is reached [default: the Pod's ServiceAccount, else $KUBECONFIG or ~/.kube/config]
    #[arg(long, env = "CONTROLLER_KUBECONFIG", value_name = "FILE", conflicts_with = "manifests")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, env = "CONTROLLER_KUBE_CONTEXT", value_name = "NAME", conflicts_with = "manifests")]
    pub kube_context: Option<String>,
    /// Read objects of these namespaces only, beside those that belong to no namespace
    #[arg(long, env = "CONTROLLER_WATCH_NAMESPACES", value_name = "NAMESPACE", value_delimiter = ',')]
    #[arg(num_args = 1.., conflicts_with = "manifests", value_parser = label)]
    pub watch_namespaces: Vec<String>,
    /// Doubt a list that lacks more than half of the objects of a kind (and more than 10): they stay for a minute, and
    /// until a second list confirms it. Objects whose CRD is removed stay until it is back. With --manifests: doubt files
    /// that lack more than half of all objects (and more than 10) for 10 seconds
    #[arg(long, env = "CONTROLLER_MASS_DELETE_GUARD", value_enum, default_value_t = Switch::On)]
    pub mass_delete_guard: Switch,
    /// The Lease by which replicas agree on who writes statuses and Events
    #[arg(long, env = "CONTROLLER_LEASE_NAME", value_name = "NAME", default_value = "holdfast", value_parser = label)]
    pub lease_name: String,
    /// Its namespace [default: that of the Pod's ServiceAccount, or of the kubeconfig's context]
    #[arg(long, env = "CONTROLLER_LEASE_NAMESPACE", value_name = "NAMESPACE", conflicts_with = "manifests")]
    #[arg(value_parser = label)]
    pub lease_namespace: Option<String>,
    /// Share what the leading replica has proven with the others, and with those to come, in Secrets beside the Lease,
    /// named after it
    #[arg(long, env = "CONTROLLER_SHARED_SECRETS", value_enum, default_value_t = Switch::Off)]
    #[arg(conflicts_with_all = ["manifests", "shared_store"])]
    pub shared_secrets: Switch,
}

impl KubernetesArgs {
    /// A client of the API server; nothing is asked yet.
    ///
    /// # Errors
    /// Where there is no such configuration, or it cannot be used.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        client::client(self.kubeconfig.as_deref(), self.kube_context.as_deref()).await
    }

    /// Namespace and name of the Lease.
    pub(crate) fn lease<'a>(&'a self, client: &'a Client) -> (&'a str, &'a str) {
        (self.lease_namespace.as_deref().unwrap_or(client.default_namespace()), &self.lease_name)
    }
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

impl Switch {
    /// Is it on?
    pub fn is_on(self) -> bool {
        self == Switch::On
    }
}

fn label(text: &str) -> Result<String, String> {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(legal) {
        return Err("a name consists of lower-case letters, digits and '-'".into());
    }
    Ok(text.to_owned())
}
