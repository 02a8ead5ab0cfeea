//! Flags of the API server.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use holdfast_kubernetes::client;
use kube::Client;

use crate::arguments::label;
use crate::failure::Failure;
use crate::headings;

/// The API server, and the objects to read from it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = headings::KUBERNETES)]
pub struct KubernetesArgs {
    /// Connection to the API server [default: the Pod's ServiceAccount, else $KUBECONFIG or ~/.kube/config]
    #[arg(long, env = "CONTROLLER_KUBECONFIG", value_name = "FILE", conflicts_with = "manifests")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, env = "CONTROLLER_KUBE_CONTEXT", value_name = "NAME", conflicts_with = "manifests")]
    pub kube_context: Option<String>,
    /// Read namespaced objects only in these namespaces; cluster-scoped objects are always read
    #[arg(long, env = "CONTROLLER_WATCH_NAMESPACES", value_name = "NAMESPACE", value_delimiter = ',')]
    #[arg(num_args = 1.., conflicts_with = "manifests", value_parser = label)]
    pub watch_namespaces: Vec<String>,
    /// Distrust a list that lacks more than half of the objects of a kind (and more than 10): the missing objects stay
    /// for a minute, and until a second list confirms their absence. If a CRD is removed, its objects stay until the
    /// CRD is back. With --manifests: distrust files that lack more than half of all objects (and more than 10) for 10
    /// seconds
    #[arg(long, env = "CONTROLLER_MASS_DELETE_GUARD", value_enum, default_value_t = Switch::On)]
    pub mass_delete_guard: Switch,
    /// Lease for the leader election of replicas; only the leader writes statuses and Events
    #[arg(help_heading = headings::REPLICAS)]
    #[arg(long, env = "CONTROLLER_LEASE_NAME", value_name = "NAME", default_value = "holdfast", value_parser = label)]
    pub lease_name: String,
    /// Namespace of the Lease [default: that of the Pod's ServiceAccount, or of the kubeconfig's context]
    #[arg(help_heading = headings::REPLICAS)]
    #[arg(long, env = "CONTROLLER_LEASE_NAMESPACE", value_name = "NAMESPACE", conflicts_with = "manifests")]
    #[arg(value_parser = label)]
    pub lease_namespace: Option<String>,
    /// Share what the leader has proven good with present and future replicas, in Secrets in the namespace of the
    /// Lease, named after it
    #[arg(help_heading = headings::REPLICAS)]
    #[arg(long, env = "CONTROLLER_SHARED_SECRETS", value_enum, default_value_t = Switch::Off)]
    #[arg(conflicts_with_all = ["manifests", "shared_store"])]
    pub shared_secrets: Switch,
}

impl KubernetesArgs {
    /// A client of the API server; sends no request yet.
    ///
    /// # Errors
    /// Returns an error if there is no configuration, or it cannot be used.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        Ok(client::client(self.kubeconfig.as_deref(), self.kube_context.as_deref()).await?)
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
    /// Returns whether the switch is on.
    pub fn is_on(self) -> bool {
        self == Switch::On
    }
}
