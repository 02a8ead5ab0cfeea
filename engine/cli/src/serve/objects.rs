//! Source of objects: folders of manifests, or an API server.

use std::sync::Arc;

use anyhow::Context;
use holdfast_api::settings::Settings;
use holdfast_api::watch_problem::WatchProblem;
use holdfast_engine::engine::Event;
use holdfast_kubernetes::denials::Denials;
use holdfast_kubernetes::leader::{Leader, Leadership};
use holdfast_kubernetes::planes::DataPlanes;
use holdfast_kubernetes::recorder::KubernetesRecorder;
use holdfast_kubernetes::sources::Sources;
use holdfast_kubernetes::statuses::Statuses;
use holdfast_kubernetes::token_keys::ServerKeys;
use holdfast_kubernetes::watching::DeletionGuard;
use holdfast_kubernetes::{Means, WatchReading};
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::admin::metrics::Metrics;
use crate::commands::run::RunArgs;
use crate::data::DataDir;
use crate::failure::Failure;
use crate::manifests::watch::{Waker, Woken};
use crate::manifests::{self, Incarnations, ManifestReading, Manifests, Problem, Readings, Root};

/// Maximum number of characters of the Pod's or host's name in the Lease and in Events.
const REPLICA_NAME_CHARS_MAX: usize = 100;

/// The names of inputs in metrics.
const API_SERVER: &str = "api_server";
const FILES: &str = "files";

/// The source of objects.
pub(super) enum Objects {
    /// Folders and files.
    Manifests(Vec<Root>),
    /// An API server.
    Kubernetes(Client),
}

/// The writers of statuses and Events to an API server.
pub(super) struct ApiWriters {
    pub(super) statuses: Statuses,
    pub(super) recorder: KubernetesRecorder,
    pub(super) leader: JoinHandle<()>,
    pub(super) leadership: Leadership,
    pub(super) denials: Denials,
}

impl Objects {
    /// The source that the command line names.
    pub(super) async fn named(args: &RunArgs) -> Result<Self, Failure> {
        if args.manifests.is_empty() {
            return Ok(Objects::Kubernetes(args.kubernetes.client().await?));
        }
        Ok(Objects::Manifests(manifests::roots("--manifests", &args.manifests, Readings::Repeated)?))
    }

    /// The state of the source at the start.
    pub(super) fn sources(&self) -> Sources {
        match self {
            Objects::Kubernetes(_) => Sources::of_kubernetes(),
            Objects::Manifests(_) => Sources::default(),
        }
    }

    /// Starts the writers of statuses and Events, if there is an API server; only the leader writes, until the product
    /// ends.
    pub(super) fn start_writers(
        &self,
        args: &RunArgs,
        settings: &Settings,
        metrics: &Metrics,
        ending: watch::Receiver<bool>,
    ) -> anyhow::Result<Option<ApiWriters>> {
        let Objects::Kubernetes(client) = self else { return Ok(None) };
        let me = identity().context("the operating system returns no random bytes")?;
        let (namespace, name) = args.kubernetes.lease(client);
        let (denials, gauge) = (Denials::default(), metrics.leader.clone());
        let pulse = metrics.inputs.pulse(API_SERVER);
        let (leader, leadership) =
            Leader::new(client.clone(), namespace, name, me.clone(), gauge, denials.clone(), move || pulse.beat());
        let controller = settings.controller_name.to_string();
        Ok(Some(ApiWriters {
            statuses: Statuses::start(client.clone(), controller, leadership.clone(), denials.clone()),
            recorder: KubernetesRecorder::start(client.clone(), leadership.clone(), &me, denials.clone()),
            leader: leader.start(ending),
            leadership,
            denials,
        }))
    }

    /// The source of the keys of tokens, unless it is a file.
    pub(super) fn token_keys(&self) -> Option<ServerKeys> {
        let Objects::Kubernetes(client) = self else { return None };
        Some(ServerKeys(client.clone()))
    }

    /// Starts the controller of data planes, if Envoys are deployed; with a receiver of its reports.
    pub(super) fn planes(
        &self,
        args: &RunArgs,
        settings: &Settings,
        writers: Option<&ApiWriters>,
    ) -> anyhow::Result<(Option<DataPlanes>, mpsc::Receiver<Vec<Event>>)> {
        match (self, writers) {
            (Objects::Kubernetes(client), Some(writers)) if settings.provision => {
                let namespaces = &args.kubernetes.watch_namespaces;
                let (planes, news) =
                    DataPlanes::start(client, args.provision.options(), namespaces, writers.leadership.clone())?;
                Ok((Some(planes), news))
            }
            // A channel without a sender yields nothing.
            _ => Ok((None, mpsc::channel(1).1)),
        }
    }

    /// Reads the objects, and watches for changes.
    pub(super) fn start(
        self,
        args: &RunArgs,
        data: &DataDir,
        means: Means,
        metrics: &Metrics,
        readings: mpsc::Sender<ManifestReading>,
        wake: (Waker, Woken),
    ) -> anyhow::Result<()> {
        let guard = DeletionGuard::new(args.kubernetes.mass_delete_guard.is_on());
        match self {
            Objects::Kubernetes(client) => {
                holdfast_kubernetes::start(&client, &args.kubernetes.watch_namespaces, guard, means, readings);
            }
            Objects::Manifests(roots) => {
                let incarnations =
                    Incarnations::open(data.path()).with_context(|| format!("--data-dir {}", data.path().display()))?;
                let folders: Vec<_> = roots.iter().map(|root| root.path.display().to_string()).collect();
                tracing::info!(manifests = folders.join(" "), "reads manifests");
                let pulse = metrics.inputs.pulse(FILES);
                let manifests = Manifests::new(roots, incarnations, Readings::Repeated).guarded(guard);
                manifests::watch::start(manifests, readings, pulse, wake).context("cannot start")?;
            }
        }
        Ok(())
    }
}

impl From<WatchReading> for ManifestReading {
    fn from(reading: WatchReading) -> Self {
        let problem = |WatchProblem { of, message, .. }: WatchProblem| Problem::of_file(of, message);
        Self {
            events: reading.events,
            problems: reading.problems.into_iter().map(problem).collect(),
            roots: "the API server".into(),
            objects: reading.objects,
            ..Self::default()
        }
    }
}

/// The name of this replica: its Pod if known, else its host.
pub(super) fn replica_name() -> String {
    let host = || std::fs::read_to_string("/etc/hostname").ok();
    let pod = std::env::var("POD_NAME").ok().filter(|name| !name.is_empty());
    let name = pod.or_else(host).unwrap_or_else(|| "holdfast".into());
    name.trim().chars().take(REPLICA_NAME_CHARS_MAX).collect()
}

/// The identity of this replica, unique among all replicas and runs.
fn identity() -> anyhow::Result<Arc<str>> {
    let name = replica_name();
    let mut life = [0; 8];
    getrandom::fill(&mut life).map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(format!("{name}_{:016x}", u64::from_be_bytes(life)).into())
}
