//! `holdfast run`: opens everything, runs the main loop, and ends everything in order.

pub mod core;
pub mod health;
pub mod heartbeat;
pub mod hold_off;
mod main_loop;
pub mod memory;
pub mod news;
mod objects;
pub mod outputs;
mod page_listeners;
pub mod ports;
pub(crate) mod recent_events;
mod replicas;
pub(crate) mod reported;
mod running;
mod settings;
mod signals;
pub(crate) mod silence;
mod watchdog;
pub mod watched;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context;
use holdfast_api::settings::Settings;
use holdfast_engine::health::SettingsInForce;
use holdfast_probe::envoy::find;
use holdfast_xds::{Address, Bound, Fleets, Notice, ServeError};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use self::core::CoreHandle;
use self::health::Readiness;
use self::main_loop::MainLoop;
use self::objects::Objects;
use self::page_listeners::PageListeners;
use self::running::RunningTasks;
use self::settings::settings;
use self::signals::Signals;
use super::admin::{self, metrics::Metrics};
use super::arguments::ServerAddress;
use super::cli::EnvoyMode;
use super::commands::run::RunArgs;
use super::data::{self, DataDir};
use super::descriptors;
use super::envoy::{Supervisor, SupervisorOptions};
use super::failure::Failure;
use super::log::RuntimeLogLevel;
use super::manifests;
use super::webhook::WebhookListener;

/// Maximum number of waiting notices of Envoys; beyond it the streams wait.
const NOTICES_MAX: usize = 4096;

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// Returns an error if the product cannot start, or fails while running.
pub(crate) async fn serve(args: RunArgs, log_level: RuntimeLogLevel) -> Result<(), Failure> {
    let (reload, reloads) = manifests::watch::wake();
    let mut signals = Signals::new(reload.clone())?;
    let shares = descriptors::divided();
    let objects = Objects::named(&args).await?;
    let path = args.data_dir.clone().map_or_else(data::default_path, Ok)?;
    let data = DataDir::open(&path)?;
    let settings = settings(&args)?;
    log_settings(&settings);
    if settings.fallback.use_last_valid && args.store_key.store_key_file.is_none() {
        tracing::warn!("{NOT_STORED_WITHOUT_KEY}");
    }
    let metrics = Arc::new(Metrics::new().context("cannot register the metrics")?);
    let mut replicas = replicas::of(&args, &objects, &data, &metrics)?;
    let shared = replicas.as_mut().map(|replicas| &mut replicas.shared);
    let memory = memory::open_store(&args, &data, &metrics, shared)?;
    let (end, ending) = watch::channel(false);
    let health = Arc::new(Readiness::default());
    watchdog::start(&health).context("cannot start the thread that watches the main loop")?;
    let (handle, questions) = CoreHandle::new();
    let listeners = PageListeners::bind(&args).await?;
    let webhook = WebhookListener::bind(&args.webhook, &metrics.webhook).await?;
    let fleets = args.xds.xds_virtual_hosts.fleets();
    let xds = super::xds::bind(&args, &data, objects.token_keys()).await?.with_connections_max(shares.xds);
    let found = signals.unless_ended(supervisor(&args, &data, &xds.managed_address())).await.transpose()?;
    let Some(supervisor) = found else { return Ok(()) };
    let state = admin::State {
        handle: handle.clone(),
        metrics: metrics.clone(),
        health: health.clone(),
        fleets: fleets.clone(),
        envoys: supervisor.as_ref().map(Supervisor::views),
        store: memory.persist.clone(),
        comparison: Arc::default(),
        log_level,
    };
    let mut pages = listeners.serve(state, shares.pages, &ending);
    webhook.map(|webhook| pages.spawn(webhook.serve(handle.clone(), shares.pages, ending.clone())));
    let (notices_in, notices) = mpsc::channel(NOTICES_MAX);
    let (end_xds, xds_ending) = watch::channel(false);
    let reachable = xds.reachable();
    let xds = start_xds(xds, fleets.clone(), notices_in, xds_ending);
    Readiness::pass(&health.xds);
    let main_loop = MainLoop {
        args: &args,
        data: &data,
        settings,
        metrics,
        health: health.clone(),
        objects,
        wake: (reload, reloads),
        memory,
        replicas,
        fleets,
        supervisor,
        reachable,
        handle,
        questions,
        notices,
        ending,
    };
    let (core, leader) = main_loop.start().await?;
    let mut tasks = RunningTasks { core, xds, pages, leader, end, end_xds };
    let failure = tasks.until_the_end(&mut signals).await;
    health.ending.store(true, Relaxed);
    tasks.end(&mut signals).await;
    tracing::info!("ended");
    failure.map_or(Ok(()), |error| Err(error.into()))
}

/// The notice that the last valid version of a certificate does not outlive this run.
const NOT_STORED_WITHOUT_KEY: &str = "no --store-key-file: last valid versions of Secrets, and of objects with credentials, are kept in memory only. After \
     a restart, a listener with a broken certificate refuses connections, and an object with credentials that is broken \
     is not backfilled";

/// The gates and their settings, since a misspelt or missing one has no other effect that is visible at the start.
fn log_settings(settings: &Settings) {
    let in_force = SettingsInForce::from(settings);
    tracing::info!(
        gates = in_force.gates(),
        use_last_valid = in_force.use_last_valid,
        backfill_dependants = in_force.backfill_dependants,
        max_backfill_age = in_force.max_backfill_age,
        "settings in force"
    );
}

fn start_xds(
    xds: Bound,
    fleets: Fleets,
    notices: mpsc::Sender<Notice>,
    mut ending: watch::Receiver<bool>,
) -> JoinHandle<Result<(), ServeError>> {
    tracing::info!(address = %xds.address(), "serving xDS");
    tokio::spawn(xds.run(fleets, notices, async move {
        // An error means that the sender is gone, and so is the product.
        let _ = ending.wait_for(|ending| *ending).await;
    }))
}

/// The controller of managed Envoys, if they are to be managed. Finding the binary can take minutes the first time.
async fn supervisor(args: &RunArgs, data: &DataDir, xds: &Address) -> Result<Option<Supervisor>, Failure> {
    if args.envoys() == EnvoyMode::None {
        return Ok(None);
    }
    let binary = tokio::task::spawn_blocking(find::find).await.context("cannot look for an Envoy")??;
    tracing::info!(path = %binary.path.display(), version = binary.version, "found an Envoy");
    let xds = match xds {
        Address::Unix(path) => ServerAddress::Unix(std::path::absolute(path).context("--xds-listen")?),
        Address::Tcp(address) => ServerAddress::Tcp(address.ip().to_string(), address.port()),
    };
    let data = data.path().to_owned();
    Ok(Some(Supervisor::new(SupervisorOptions { binary, xds, data, concurrency: args.envoy_concurrency })?))
}
