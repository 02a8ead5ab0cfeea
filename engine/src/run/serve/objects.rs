//! Where objects come from: folders of manifests, or an API server.

use anyhow::Context;
use kube::Client;
use tokio::sync::mpsc;

use crate::engine::Event;
use crate::run::cli::RunArgs;
use crate::run::data::DataDir;
use crate::run::failure::Failure;
use crate::run::kubernetes::planes::DataPlanes;
use crate::run::kubernetes::recorder::KubernetesRecorder;
use crate::run::kubernetes::statuses::Statuses;
use crate::run::kubernetes::token_keys::ServerKeys;
use crate::run::manifests::{Incarnations, Manifests, Reading, Root, watch};
use crate::run::{kubernetes, manifest_roots};
use crate::settings::Settings;

/// Where objects come from.
pub(super) enum Objects {
    /// Folders and files.
    Manifests(Vec<Root>),
    /// An API server.
    Kubernetes(Client),
}

impl Objects {
    /// What the command line names.
    pub(super) async fn named(args: &RunArgs) -> Result<Self, Failure> {
        if args.manifests.is_empty() {
            return Ok(Objects::Kubernetes(kubernetes::client::client(&args.kubernetes).await?));
        }
        Ok(Objects::Manifests(manifest_roots("--manifests", &args.manifests)?))
    }

    /// Where statuses and Events are written, if anywhere.
    pub(super) fn told(&self, settings: &Settings) -> Option<(Statuses, KubernetesRecorder)> {
        let Objects::Kubernetes(client) = self else { return None };
        let statuses = Statuses::start(client.clone(), settings.controller_name.to_string());
        Some((statuses, KubernetesRecorder::start(client.clone())))
    }

    /// Who tells the keys of tokens, where it is not a file.
    pub(super) fn token_keys(&self) -> Option<ServerKeys> {
        let Objects::Kubernetes(client) = self else { return None };
        Some(ServerKeys(client.clone()))
    }

    /// Who makes Envoys for Gateways, if anybody, and the news of that.
    pub(super) fn planes(
        &self,
        args: &RunArgs,
        settings: &Settings,
    ) -> anyhow::Result<(Option<DataPlanes>, mpsc::Receiver<Vec<Event>>)> {
        match self {
            Objects::Kubernetes(client) if settings.provision => {
                let (planes, news) = DataPlanes::start(client, &args.provision, &args.kubernetes.watch_namespaces)?;
                Ok((Some(planes), news))
            }
            // Whose sender is gone nothing comes of.
            _ => Ok((None, mpsc::channel(1).1)),
        }
    }

    /// Reads them, and watches for changes.
    pub(super) fn start(self, args: &RunArgs, data: &DataDir, readings: mpsc::Sender<Reading>) -> anyhow::Result<()> {
        match self {
            Objects::Kubernetes(client) => kubernetes::start(&client, &args.kubernetes, readings),
            Objects::Manifests(roots) => {
                let incarnations =
                    Incarnations::open(data.path()).with_context(|| format!("--data-dir {}", data.path().display()))?;
                let folders: Vec<_> = roots.iter().map(|root| root.path.display().to_string()).collect();
                tracing::info!(manifests = folders.join(" "), "reads manifests");
                watch::start(Manifests::new(roots, incarnations, false), readings).context("cannot start")?;
            }
        }
        Ok(())
    }
}
