//! `holdfast check --kubeconfig`: the objects of a live cluster, which are only listed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use holdfast_api::settings::Settings;
use holdfast_kubernetes::{client, listing};
use serde::Serialize;

use crate::applied::ClusterObjects;
use crate::arguments::label;
use crate::failure::Failure;
use crate::headings;
use crate::settings::TranslationArgs;

/// The cluster to check.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = headings::KUBERNETES)]
pub struct ClusterArgs {
    /// Check the objects of the cluster of this kubeconfig, which are only listed. With PATHs: the objects that the
    /// cluster would have after `kubectl apply` of these files
    #[arg(long, env = "CONTROLLER_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, visible_alias = "context", env = "CONTROLLER_KUBE_CONTEXT", value_name = "NAME")]
    #[arg(requires = "kubeconfig")]
    pub kube_context: Option<String>,
    /// Read namespaced objects only in these namespaces, as `holdfast run` does with this flag
    #[arg(long, env = "CONTROLLER_WATCH_NAMESPACES", value_name = "NAMESPACE", value_delimiter = ',')]
    #[arg(requires = "kubeconfig", value_parser = label)]
    pub watch_namespaces: Vec<String>,
}

/// The part of the report about the cluster.
#[derive(Debug, Serialize)]
pub(super) struct ClusterSummary {
    /// The kubeconfig.
    pub(super) kubeconfig: String,
    /// The number of its objects.
    pub(super) objects: usize,
    /// The kinds that the API server does not serve, as `group/Kind`.
    pub(super) absent: BTreeSet<Arc<str>>,
}

impl ClusterArgs {
    /// The objects of the cluster; `None` if no cluster is named.
    ///
    /// # Errors
    /// Returns an error if the kubeconfig cannot be used, or a kind cannot be listed.
    pub(super) fn objects(&self) -> Result<Option<(ClusterSummary, ClusterObjects)>, Failure> {
        let Some(kubeconfig) = &self.kubeconfig else { return Ok(None) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
        let listing = runtime.block_on(async {
            let client = client::client(Some(kubeconfig), self.kube_context.as_deref()).await?;
            Ok::<_, Failure>(listing::list(&client, &self.watch_namespaces).await?)
        })?;
        let (kubeconfig, objects) = (kubeconfig.display().to_string(), listing.objects.len());
        Ok(Some((ClusterSummary { kubeconfig, objects, absent: listing.absent }, listing.objects)))
    }

    /// The settings with which `holdfast run` reads a cluster, unless flags differ: each Gateway has Envoys with a host
    /// of their own, and backends at loopback addresses are refused.
    pub(super) fn settings(&self, translation: &TranslationArgs) -> Result<Settings, Failure> {
        let settings = translation.settings()?;
        if self.kubeconfig.is_none() {
            return Ok(settings);
        }
        let allow_loopback_backends = translation.allow_loopback_backends.unwrap_or(false);
        let allow_health_checks_by_name = translation.allow_health_checks_by_name.unwrap_or(allow_loopback_backends);
        let listen_address = None;
        Ok(Settings {
            allow_loopback_backends,
            allow_health_checks_by_name,
            listen_address,
            provision: true,
            ..settings
        })
    }
}
