//! Start of the main loop: its inputs and outputs, and the events that it handles first.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use holdfast_api::settings::Settings;
use holdfast_engine::engine::{Engine, Event, Role};
use holdfast_fallback::restored::Restored;
use holdfast_kubernetes::Means;
use holdfast_xds::{Fleets, Notice, Reachable};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::core::{CORE_QUEUE_MAX, Core, CoreHandle, CoreInputs, CoreQuery};
use super::health::Readiness;
use super::memory::{self, Memory};
use super::objects::{ApiWriters, Objects};
use super::outputs::Outputs;
use super::replicas::{self, Replicas};
use super::watched::{DataFolder, Watched};
use crate::admin::metrics::Metrics;
use crate::commands::run::RunArgs;
use crate::data::DataDir;
use crate::envoy::taken::TakenSockets;
use crate::envoy::{self, Supervisor};
use crate::failure::Failure;
use crate::manifests::watch::{Waker, Woken};
use crate::store;
use crate::store::not_opened::NotOpened;

/// The file of the store that sled keeps open.
const STORE_FILE: &str = "db";

/// Everything that is opened before the main loop starts.
pub(super) struct MainLoop<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) data: &'a DataDir,
    pub(super) settings: Settings,
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Arc<Readiness>,
    pub(super) objects: Objects,
    /// Reasons to read the manifests again.
    pub(super) wake: (Waker, Woken),
    pub(super) memory: Memory,
    pub(super) replicas: Option<Replicas>,
    pub(super) fleets: Fleets,
    pub(super) supervisor: Option<Supervisor>,
    pub(super) reachable: Reachable,
    pub(super) handle: CoreHandle,
    pub(super) questions: mpsc::Receiver<CoreQuery>,
    pub(super) notices: mpsc::Receiver<Notice>,
    pub(super) ending: watch::Receiver<bool>,
}

impl MainLoop<'_> {
    /// Starts the loop; returns its task, and the task of the leader election.
    ///
    /// # Errors
    /// Returns an error if an input cannot be opened, or a required probe cannot be started.
    pub(super) async fn start(self) -> Result<(JoinHandle<()>, Option<JoinHandle<()>>), Failure> {
        let Self { args, data, settings, metrics, health, objects, wake, memory, replicas, .. } = self;
        let Memory { persist, failure, restored, learned } = memory;
        let (readings_in, readings) = mpsc::channel(CORE_QUEUE_MAX);
        let writers = objects.start_writers(args, &settings, &metrics, self.ending.clone())?;
        let (planes, provisioned) = objects.planes(args, &settings, writers.as_ref())?;
        let sources = Arc::new(objects.sources());
        let means = Means {
            remembered: restored.objects(),
            denials: writers.as_ref().map(|writers| writers.denials.clone()).unwrap_or_default(),
            gauge: metrics.problems.clone(),
            sources: sources.clone(),
        };
        objects.start(args, data, means, &metrics, readings_in, wake)?;
        let binary = self.supervisor.as_ref().map(|supervisor| supervisor.binary().clone());
        let taken = self.supervisor.as_ref().map(|_| envoy::taken::look(data.path()));
        let outputs = Outputs::new(self.fleets, self.supervisor, persist.clone());
        let mut core = Core::new(Engine::new(settings), outputs, metrics, health);
        let (leader, leadership) = writers.map_or((None, None), |api: ApiWriters| {
            core.report_to_kubernetes(api.statuses, api.recorder);
            (Some(api.leader), Some(api.leadership))
        });
        core.keep_data_planes(planes);
        core.watch(Watched::open(watched_folder(data, failure), sources, leadership.clone(), self.reachable));
        // The stored configuration is served before anything else is awaited.
        core.on_events(first_events(replicas.is_some(), taken.clone(), restored, learned));
        let mut probe = memory::start_probe(args, data, binary).await?;
        let build = probe.available.borrow_and_update().clone();
        core.use_probe(probe.prober.take(), build);
        let replicas = replicas::start(replicas, leadership, &mut core, self.handle, persist)?;
        let core = core.start(CoreInputs {
            readings,
            notices: self.notices,
            tried: probe.tried,
            probe: probe.available,
            provisioned,
            ports: watch_ports(data, taken),
            replicas,
            questions: self.questions,
            ending: self.ending,
        });
        let core = core.context("cannot start the main loop")?;
        tracing::info!(data = %data.path().display(), "started");
        Ok((core, leader))
    }
}

fn watched_folder(data: &DataDir, not_opened: Option<NotOpened>) -> DataFolder {
    let opened = data.opened(&Path::new(store::FOLDER).join(STORE_FILE));
    DataFolder { path: data.path().to_owned(), opened: Some(opened), not_opened }
}

/// The events from which the stored configuration is served.
fn first_events(
    has_replicas: bool,
    taken: Option<TakenSockets>,
    restored: Restored,
    learned: Option<Restored>,
) -> Vec<Event> {
    let follows = has_replicas.then_some(Event::Role(Role::Follower));
    let ports = taken.map(Event::PortsTaken);
    let learned = learned.map(|learned| Event::Learned(Box::new(learned)));
    follows.into_iter().chain(ports).chain([Event::Restored(Box::new(restored))]).chain(learned).collect()
}

/// Watches the ports of this host if Envoys are managed; else the receiver is closed.
fn watch_ports(data: &DataDir, taken: Option<TakenSockets>) -> mpsc::Receiver<Vec<Event>> {
    let (events_in, events) = mpsc::channel(1);
    if let Some(taken) = taken {
        envoy::taken::watch(data.path().to_owned(), taken, events_in);
    }
    events
}
