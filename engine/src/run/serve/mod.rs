//! `holdfast run`: opens everything, lets the main loop run, and ends everything in order.

pub mod core;
pub mod health;
pub mod hold_off;
pub mod news;
pub mod outputs;
pub mod ports;
pub mod view;

use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use self::core::{Asker, Core, Inputs, QUEUE_MAX};
use self::health::Health;
use self::outputs::Outputs;
use super::admin::{self, metrics::Metrics};
use super::cli::RunArgs;
use super::data::{self, DataDir};
use super::failure::Failure;
use super::manifests::{Incarnations, Manifests, Root, watch as manifest_watch};
use crate::engine::Engine;
use crate::settings::Settings;

/// Serves until it is asked to end (SIGTERM, SIGINT).
///
/// # Errors
/// Where it cannot start, or fails while running.
pub fn run(args: RunArgs) -> Result<(), Failure> {
    super::log::start(args.log_format, &args.log_level)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(serve(args))
}

async fn serve(args: RunArgs) -> Result<(), Failure> {
    let roots = roots(&args)?;
    let path = args.data_dir.clone().map_or_else(data::default_path, Ok)?;
    let data = DataDir::open(&path)?;
    let signals = Signals::new()?;

    let metrics = Arc::new(Metrics::new().context("cannot count")?);
    let health = Arc::new(Health::default());
    let (asker, questions) = Asker::new();
    let state = admin::State { asker, metrics: metrics.clone(), health: health.clone() };
    let diagnostics = bind("--diagnostics-listen", args.diagnostics_listen.0).await?;
    let metrics_listener = bind("--metrics-listen", args.metrics_listen.0).await?;
    Health::pass(&health.xds);

    let (end, ending) = watch::channel(false);
    let mut servers = tokio::task::JoinSet::new();
    if let Some(listener) = diagnostics {
        servers.spawn(admin::serve(listener, admin::debug_pages(state.clone()), ending.clone()));
    }
    if let Some(listener) = metrics_listener {
        servers.spawn(admin::serve(listener, admin::metrics_pages(state), ending.clone()));
    }

    let incarnations =
        Incarnations::open(data.path()).with_context(|| format!("--data-dir {}", data.path().display()))?;
    let (readings_in, readings) = mpsc::channel(QUEUE_MAX);
    manifest_watch::start(Manifests::new(roots, incarnations, false), readings_in).context("cannot start")?;

    let engine = Engine::new(settings(&args));
    let core = Core::new(engine, Outputs::default(), metrics, health.clone());
    let mut core = tokio::spawn(core.run(Inputs { readings, questions, ending: ending.clone() }));
    tracing::info!(data = %data.path().display(), "started");

    let ended_early = tokio::select! {
        signal = signals.wait() => {
            tracing::info!(signal, "ending");
            None
        }
        outcome = &mut core => Some(outcome),
    };
    health.ending.store(true, std::sync::atomic::Ordering::Relaxed);
    // Nobody may listen any longer.
    let _ = end.send(true);
    let outcome = match ended_early {
        Some(outcome) => outcome.context("the main loop ended").and(Err(anyhow::anyhow!("the main loop ended"))),
        None => core.await.context("the main loop failed"),
    };
    servers.shutdown().await;
    tracing::info!("ended");
    outcome.map_err(Failure::from)
}

fn roots(args: &RunArgs) -> Result<Vec<Root>, Failure> {
    super::manifest_roots("--manifests", &args.manifests)
}

fn settings(args: &RunArgs) -> Settings {
    let low_port_shift = ports::low_port_shift(args.listen_address);
    if low_port_shift != 0 {
        tracing::info!("this process may not bind ports below 1024: they are shifted by {low_port_shift}");
    }
    Settings { listen_address: Some(args.listen_address), low_port_shift, ..args.translation.settings() }
}

/// Binds the address of a flag.
async fn bind(flag: &str, address: Option<std::net::SocketAddr>) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("{flag} {address}: cannot listen there (choose another address, or none)"))?;
    Ok(Some(listener))
}

/// The signals that ask the product to end.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn wait(mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
