//! `holdfast run`: opens everything, runs the main loop, and ends everything in order.

pub mod core;
pub mod health;
pub mod hold_off;
pub mod memory;
pub mod news;
mod objects;
pub mod outputs;
pub mod ports;
mod replicas;
pub mod sources;
mod unanswered;
pub mod watched;

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use holdfast_api::settings::Settings;
use holdfast_engine::engine::{Engine, Event, Role};
use holdfast_xds::{Address, Fleets};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use self::core::{Core, CoreHandle, Inputs, QUEUE_MAX};
use self::health::Health;
use self::memory::Memory;
use self::objects::{ApiWriters, Objects};
use self::outputs::Outputs;
use self::watched::{Folder, Watched};
use super::admin::{self, metrics::Metrics};
use super::arguments::Target;
use super::cli::EnvoyMode;
use super::commands::run::RunArgs;
use super::data::{self, DataDir};
use super::descriptors;
use super::envoy::{self, Supervisor, SupervisorOptions};
use super::failure::Failure;
use super::kubernetes::Means;

/// Maximum number of waiting notices of Envoys; beyond it the streams wait.
const NOTICES_MAX: usize = 4096;
/// The file of the store that sled keeps open.
const STORE_FILE: &str = "db";
/// How long streams may take to end.
const STREAMS_END_MAX: Duration = Duration::from_secs(2);
/// How long the release of the Lease may take; after that another replica has to wait until the Lease expires.
const LEAD_ENDS_MAX: Duration = Duration::from_secs(2);

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// Returns an error if the product cannot start, or fails while running.
pub async fn serve(args: RunArgs) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let shares = descriptors::divided();
    let objects = Objects::named(&args).await?;
    let path = args.data_dir.clone().map_or_else(data::default_path, Ok)?;
    let data = DataDir::open(&path)?;
    let settings = settings(&args)?;
    let metrics = Arc::new(Metrics::new().context("cannot register the metrics")?);
    let mut replicas = replicas::of(&args, &objects, &data, &metrics)?;
    let shared = replicas.as_mut().map(|replicas| &mut replicas.shared);
    let Memory { persist, failure, restored, learned } = memory::open_store(&args, &data, &metrics, shared)?;
    let (end, ending) = watch::channel(false);

    let health = Arc::new(Health::default());
    let (handle, questions) = CoreHandle::new();
    let diagnostics = bind("--diagnostics-listen", args.diagnostics_listen.0).await?;
    if let Some(address) = args.diagnostics_listen.0.filter(|address| !address.ip().is_loopback()) {
        tracing::warn!(%address, "--diagnostics-listen: any client that reaches this address can read the whole \
                                  configuration");
    }
    let metrics_listener = bind("--metrics-listen", args.metrics_listen.0).await?;
    let fleets = Fleets::new();
    let xds = super::xds::bind(&args, &data, objects.token_keys()).await?.with_connections_max(shares.xds);
    let supervisor = tokio::select! {
        supervisor = supervisor(&args, &data, xds.address()) => supervisor?,
        signal = signals.next() => {
            tracing::info!(signal, "ended during the start");
            return Ok(());
        }
    };
    let state = admin::State {
        handle: handle.clone(),
        metrics: metrics.clone(),
        health: health.clone(),
        fleets: fleets.clone(),
        envoys: supervisor.as_ref().map(Supervisor::views),
        store: persist.clone(),
    };

    let mut servers = tokio::task::JoinSet::new();
    if let Some(listener) = diagnostics {
        servers.spawn(admin::serve(listener, admin::debug_pages(state.clone()), shares.pages, ending.clone()));
    }
    if let Some(listener) = metrics_listener {
        servers.spawn(admin::serve(listener, admin::metrics_pages(state), shares.pages, ending.clone()));
    }
    let (notices_in, notices) = mpsc::channel(NOTICES_MAX);
    tracing::info!(address = %xds.address(), "serving xDS");
    let (end_xds, xds_ending) = watch::channel(false);
    let reachable = xds.reachable();
    let mut xds = tokio::spawn(xds.run(fleets.clone(), notices_in, ended(xds_ending)));
    Health::pass(&health.xds);

    let (readings_in, readings) = mpsc::channel(QUEUE_MAX);
    let writers = objects.start_writers(&args, &settings, &metrics, ending.clone())?;
    let (planes, provisioned) = objects.planes(&args, &settings, writers.as_ref())?;
    let sources = Arc::new(objects.sources());
    let means = Means {
        remembered: restored.objects(),
        denials: writers.as_ref().map(|writers| writers.denials.clone()).unwrap_or_default(),
        gauge: metrics.problems.clone(),
        sources: sources.clone(),
    };
    objects.start(&args, &data, means, &metrics, readings_in)?;
    let binary = supervisor.as_ref().map(|supervisor| supervisor.binary().clone());
    let taken = supervisor.as_ref().map(|_| envoy::taken::look(data.path()));
    let outputs = Outputs::new(fleets, supervisor, persist.clone());
    let mut core = Core::new(Engine::new(settings), outputs, metrics, health.clone());
    let (leader, leadership) = writers.map_or((None, None), |api: ApiWriters| {
        core.report_to_kubernetes(api.statuses, api.recorder);
        (Some(api.leader), Some(api.leadership))
    });
    core.keep_data_planes(planes);
    let folder = Folder {
        path: data.path().to_owned(),
        opened: Some(data.opened(&Path::new(super::store::FOLDER).join(STORE_FILE))),
        not_stored: failure,
    };
    core.watch(Watched::open(folder, sources, leadership.clone(), reachable));
    // The stored configuration is served before anything else is awaited.
    let follows = replicas.is_some().then_some(Event::Role(Role::Follower));
    let learned = learned.map(|learned| Event::Learned(Box::new(learned)));
    let ports = taken.clone().map(Event::PortsTaken);
    core.on_events(
        follows.into_iter().chain(ports).chain([Event::Restored(Box::new(restored))]).chain(learned).collect(),
    );
    let mut probe = memory::start_probe(&args, &data, binary).await?;
    let build = probe.available.borrow_and_update().clone();
    core.use_probe(probe.prober.take(), build);
    let replicas = replicas::start(replicas, leadership, &mut core, handle, persist)?;
    let (ports_in, ports) = mpsc::channel(1);
    if let Some(taken) = taken {
        envoy::taken::watch(data.path().to_owned(), taken, ports_in);
    }
    let inputs = Inputs {
        readings,
        notices,
        tried: probe.tried,
        probe: probe.available,
        provisioned,
        ports,
        replicas,
        questions,
        ending,
    };
    let mut core = tokio::spawn(core.run(inputs));
    tracing::info!(data = %data.path().display(), "started");

    let failure = tokio::select! {
        signal = signals.next() => {
            tracing::info!(signal, "ending");
            None
        }
        outcome = &mut core => {
            let error = outcome.err().map_or_else(|| anyhow::anyhow!("it ended unexpectedly"), anyhow::Error::from);
            Some(error.context("the main loop failed"))
        }
        outcome = &mut xds => {
            let error = match outcome {
                Ok(Ok(())) => anyhow::anyhow!("it ended unexpectedly"),
                Ok(Err(error)) => error.into(),
                Err(error) => error.into(),
            };
            Some(error.context("the xDS server failed"))
        }
    };
    health.ending.store(true, std::sync::atomic::Ordering::Relaxed);
    // An error means that no receiver is left. The Envoys end first: until then their configuration stays.
    let _ = end.send(true);
    if !core.is_finished() {
        tokio::select! {
            _ = &mut core => {}
            signal = signals.next() => tracing::warn!(signal, "ending immediately; the next start of Holdfast adopts \
                                                               or ends Envoys that still run"),
        }
    }
    let _ = end_xds.send(true);
    if !xds.is_finished() {
        let _ = tokio::time::timeout(STREAMS_END_MAX, xds).await;
    }
    servers.shutdown().await;
    if let Some(leader) = leader {
        let _ = tokio::time::timeout(LEAD_ENDS_MAX, leader).await;
    }
    tracing::info!("ended");
    failure.map_or(Ok(()), |error| Err(error.into()))
}

/// The controller of managed Envoys, if they are to be managed. Finding the binary can take minutes the first time.
async fn supervisor(args: &RunArgs, data: &DataDir, xds: &Address) -> Result<Option<Supervisor>, Failure> {
    if args.envoys() == EnvoyMode::None {
        return Ok(None);
    }
    let binary = tokio::task::spawn_blocking(envoy::find::find).await.context("cannot look for an Envoy")??;
    tracing::info!(path = %binary.path.display(), version = binary.version, "found an Envoy");
    let xds = match xds {
        Address::Unix(path) => Target::Unix(std::path::absolute(path).context("--xds-listen")?),
        Address::Tcp(address) => Target::Tcp(address.ip().to_string(), address.port()),
    };
    let data = data.path().to_owned();
    Ok(Some(Supervisor::new(SupervisorOptions { binary, xds, data, concurrency: args.envoy_concurrency })?))
}

async fn ended(mut ending: watch::Receiver<bool>) {
    // An error means that the sender is gone, and so is the product.
    let _ = ending.wait_for(|ending| *ending).await;
}

fn settings(args: &RunArgs) -> Result<Settings, Failure> {
    let in_cluster = args.manifests.is_empty() && args.envoys() == EnvoyMode::None;
    if args.provision.provision == Some(true) && !in_cluster {
        return Err(Failure::usage(
            "--provision needs an API server and --envoy none: Holdfast deploys Envoys in a cluster, or starts them \
             on this host, not both",
        ));
    }
    let provision = in_cluster && args.provision.provision.unwrap_or(args.listen_address.is_none());
    // Envoys in Pods have their own host, on which they may bind any port.
    let shared = args.listen_address.or((!in_cluster).then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    let low_port_shift = shared.map_or(0, ports::low_port_shift);
    if low_port_shift != 0 {
        tracing::info!(
            "this process has no permission to bind ports below 1024: Envoy listens on these ports plus \
             {low_port_shift}"
        );
    }
    let mut settings = args.translation.settings()?;
    // Users with write access to EndpointSlices must not reach services on the loopback addresses of Envoy hosts.
    settings.allow_loopback_backends &=
        !args.manifests.is_empty() || args.translation.allow_loopback_backends.is_some();
    if args.translation.allow_health_checks_by_name.is_none() {
        settings.allow_health_checks_by_name = settings.allow_loopback_backends;
    }
    settings.fallback.ack_timeout_ms = u64::try_from(args.ack_timeout.as_millis()).unwrap_or(u64::MAX);
    let addresses = args.provision.gateway_addresses.iter().map(|address| address.as_str().into()).collect();
    Ok(Settings { listen_address: shared, low_port_shift, provision, addresses, ..settings })
}

/// Binds the address of a flag.
async fn bind(flag: &str, address: Option<std::net::SocketAddr>) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("{flag} {address}: cannot listen on this address (choose another address, or none)")
    })?;
    Ok(Some(listener))
}

/// The signals that end the product. Other signals are answered with a log entry.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    _others: tokio::task::JoinSet<()>,
}

/// Signals that would end the process if they were not handled, with their log entries.
const IGNORED: [(&str, tokio::signal::unix::SignalKind, &str); 3] = [
    (
        "SIGHUP",
        tokio::signal::unix::SignalKind::hangup(),
        "ignored: manifests, certificates and keys are read again when they change, flags at a restart",
    ),
    (
        "SIGUSR1",
        tokio::signal::unix::SignalKind::user_defined1(),
        "ignored: the log goes to standard error and is not reopened; holdfast status shows what is served",
    ),
    ("SIGUSR2", tokio::signal::unix::SignalKind::user_defined2(), "ignored: Holdfast does not use this signal"),
];

impl Signals {
    fn new() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let mut others = tokio::task::JoinSet::new();
        for (name, kind, answer) in IGNORED {
            let mut received = listen(kind)?;
            others.spawn(async move {
                while received.recv().await.is_some() {
                    tracing::warn!(signal = name, "{answer}");
                }
            });
        }
        let (terminate, interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, _others: others })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
