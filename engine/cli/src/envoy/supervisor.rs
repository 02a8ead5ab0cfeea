//! Controller of managed Envoys: starts or adopts one Envoy for each Gateway, restarts it when it dies, and ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use holdfast_envoy::bootstrap::address::socket_path;
use holdfast_envoy::bootstrap::{Bootstrap, ListenAddress, MAX_CONNECTIONS, MAX_HEAP_BYTES, ServerAddress};
use holdfast_envoy::yaml;
use holdfast_probe::envoy::EnvoyBinary;
use holdfast_probe::envoy::log_lines::{self, LogTarget};
use holdfast_probe::envoy::process::ProcessIdentity;
use holdfast_probe::envoy::record::{EnvoyRecord, EnvoyStart};
use holdfast_probe::folders;
use holdfast_xds::connection::Protocol;
use holdfast_xds::{EnvoyId, managed_node_id};
use serde::Serialize;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::admin;

/// How long requests in progress may take when an Envoy is ended.
pub const ENVOY_DRAIN_MAX: Duration = Duration::from_secs(5);
/// How long an Envoy may take to end before it is killed.
pub const GRACE: Duration = Duration::from_secs(5);
/// How long to wait for a new Envoy to be ready before the previous one is ended in any case.
const ENVOY_TAKE_OVER_MAX: Duration = Duration::from_secs(5);
/// The pause before an Envoy that died is started again; it doubles while the Envoy keeps dying.
const RESTART_AFTER: Duration = Duration::from_millis(100);
/// Maximum of this pause.
const ENVOY_RESTART_AFTER_MAX: Duration = Duration::from_secs(10);
/// After this time an exit no longer counts as a failed start.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// Interval of requests to the admin interface of a running Envoy.
const ADMIN_CHECKED_EVERY: Duration = Duration::from_secs(2);
/// Maximum length of an Envoy's folder name, in bytes; the limit of file systems is 255.
const ENVOY_FOLDER_BYTES_MAX: usize = 200;

/// The options of managed Envoys.
#[derive(Clone, Debug)]
pub struct SupervisorOptions {
    /// The binary.
    pub binary: EnvoyBinary,
    /// The address of the xDS server.
    pub xds: ServerAddress,
    /// The data folder with the folders of the Envoys.
    pub data: PathBuf,
    /// Worker threads of each Envoy.
    pub concurrency: u32,
}

/// A managed Envoy in diagnostics.
#[derive(Clone, Debug, Serialize)]
pub struct ManagedEnvoy {
    /// `namespace/name` of its Gateway.
    pub gateway: Arc<str>,
    /// `starting`, `running`, `waiting` (for a restart) or `ending`.
    pub state: &'static str,
    /// Its process id, while it runs.
    pub pid: Option<u32>,
    /// Whether an earlier run of Holdfast started it.
    pub adopted: bool,
    /// Whether this process was connected in this run.
    #[serde(rename = "wasConnected")]
    pub was_connected: bool,
    /// The number of restarts.
    pub restarts: u32,
    /// Its folder.
    pub folder: PathBuf,
    /// The socket of its admin interface.
    pub admin: PathBuf,
    /// Its version.
    pub version: String,
    /// When its admin interface last answered, if it does not answer now.
    #[serde(skip)]
    pub last_answer: Option<Instant>,
}

/// All managed Envoys.
#[derive(Debug)]
pub struct Supervisor {
    options: Arc<SupervisorOptions>,
    kept: BTreeMap<Arc<str>, SupervisedEnvoy>,
    /// Envoys of removed Gateways, until they have ended.
    leaving: BTreeMap<Arc<str>, JoinHandle<()>>,
    views: Views,
    /// The runtime of the tasks of the Envoys: the main loop, which calls the controller, has one of its own.
    runtime: Handle,
}

/// The state that diagnostics read.
pub type Views = Arc<Mutex<BTreeMap<Arc<str>, ManagedEnvoy>>>;

#[derive(Debug)]
struct SupervisedEnvoy {
    end: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Supervisor {
    /// Creates the controller, without any Envoy. Needs a running tokio runtime, which then runs the tasks of the Envoys.
    ///
    /// # Errors
    /// Returns an error if the data folder is not writable, or its path is too long for sockets.
    pub fn new(options: SupervisorOptions) -> Result<Self> {
        let folder = options.data.join("envoys");
        folders::create_private(&folder).with_context(|| format!("cannot write to {}", folder.display()))?;
        socket_path(&admin_socket(&options.data, "").to_string_lossy()).map_err(|why| {
            anyhow::anyhow!(
                "--data-dir {}: the path is too long for the unix sockets in this folder: {why}",
                options.data.display()
            )
        })?;
        let (kept, leaving, views) = (BTreeMap::new(), BTreeMap::new(), Views::default());
        Ok(Self { options: Arc::new(options), kept, leaving, views, runtime: Handle::current() })
    }

    /// The binary of the Envoys.
    pub fn binary(&self) -> &EnvoyBinary {
        &self.options.binary
    }

    /// The state that diagnostics read.
    pub fn views(&self) -> Views {
        self.views.clone()
    }

    /// Records that an Envoy has connected.
    pub fn connected(&self, envoy: &EnvoyId) {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = views.get_mut(&envoy.fleet).filter(|_| *envoy.node == *managed_node_id(&envoy.fleet)) {
            view.was_connected = true;
        }
    }

    /// Starts an Envoy for this Gateway and keeps it running, unless there is one.
    pub fn start(&mut self, gateway: &Arc<str>) {
        if self.kept.contains_key(gateway) {
            return;
        }
        let (end, ending) = watch::channel(false);
        let one = One::new(gateway.clone(), self.options.clone(), self.views.clone());
        let before = self.leaving.remove(gateway);
        let task = self.runtime.spawn(async move {
            // The Gateway was deleted and created again: its previous Envoy ends first.
            if let Some(before) = before {
                let _ = before.await;
            }
            one.keep(ending).await;
        });
        self.kept.insert(gateway.clone(), SupervisedEnvoy { end, task });
    }

    /// Ends the Envoy of this Gateway.
    pub fn end(&mut self, gateway: &Arc<str>) {
        if let Some(SupervisedEnvoy { end, task }) = self.kept.remove(gateway) {
            end.send_replace(true);
            self.leaving.insert(gateway.clone(), task);
        }
        self.leaving.retain(|_, task| !task.is_finished());
    }

    /// Ends the Envoys of an earlier run unless their Gateway is in `gateways`. The list includes Gateways for which
    /// nothing is published yet: the configuration that their Envoy still serves is better than none.
    pub fn end_orphans(&mut self, gateways: &[Arc<str>]) {
        let known: BTreeSet<PathBuf> =
            gateways.iter().chain(self.kept.keys()).map(|gateway| folder(&self.options.data, gateway)).collect();
        let entries = fs::read_dir(self.options.data.join("envoys")).into_iter().flatten().flatten();
        for folder in entries.map(|entry| entry.path()).filter(|folder| !known.contains(folder)) {
            if let Some(record) = EnvoyRecord::of_running(&folder) {
                tracing::info!(pid = record.process.pid, folder = %folder.display(), "ending the Envoy of a Gateway that no longer exists");
                let name: Arc<str> = folder.to_string_lossy().into();
                let task = self.runtime.spawn(async move {
                    end_process(&record.process).await;
                    EnvoyRecord::remove(&folder);
                });
                self.leaving.insert(name, task);
            }
        }
    }

    /// Ends all Envoys, and returns when they have ended.
    pub async fn end_all(&mut self) {
        let gateways: Vec<_> = self.kept.keys().cloned().collect();
        for gateway in gateways {
            self.end(&gateway);
        }
        for (_, task) in std::mem::take(&mut self.leaving) {
            // A panic of the task has already been reported.
            let _ = task.await;
        }
    }
}

/// The Envoy of a Gateway.
struct One {
    gateway: Arc<str>,
    options: Arc<SupervisorOptions>,
    views: Views,
    folder: PathBuf,
    admin: PathBuf,
    restarts: u32,
    /// True once the Envoy is being ended.
    ending: Arc<AtomicBool>,
}

/// A running Envoy.
struct Running {
    identity: ProcessIdentity,
    /// `None` if it is not a child of this process.
    child: Option<Child>,
}

impl Running {
    async fn ended(&mut self) -> String {
        match &mut self.child {
            Some(child) => match child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            None => {
                self.identity.ended().await;
                "unknown exit status, since an earlier run of Holdfast started it".into()
            }
        }
    }
}

impl One {
    fn new(gateway: Arc<str>, options: Arc<SupervisorOptions>, views: Views) -> Self {
        let folder = folder(&options.data, &gateway);
        let admin = admin_socket(&options.data, &gateway);
        Self { gateway, options, views, folder, admin, restarts: 0, ending: Arc::default() }
    }

    async fn keep(mut self, mut ending: watch::Receiver<bool>) {
        let mut pause = RESTART_AFTER;
        loop {
            self.show("starting", None, false);
            let started = Instant::now();
            match self.adopt_or_start().await {
                Ok((mut running, adopted)) => {
                    self.show("running", Some(running.identity.pid), adopted);
                    tokio::select! {
                        () = stop_requested(&mut ending) => return self.end(running).await,
                        never = self.watch() => never,
                        how = running.ended() => {
                            tracing::error!(gateway = %self.gateway, pid = running.identity.pid, how, "an Envoy ended unexpectedly; Holdfast starts another one");
                        }
                    }
                }
                Err(error) => {
                    tracing::error!(gateway = %self.gateway, error = format!("{error:#}"), "cannot start an Envoy; Holdfast tries again");
                }
            }
            pause = if started.elapsed() >= STABLE_AFTER { RESTART_AFTER } else { pause };
            self.show("waiting", None, false);
            tokio::select! {
                () = stop_requested(&mut ending) => return self.forget(),
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(ENVOY_RESTART_AFTER_MAX);
            self.restarts += 1;
        }
    }

    /// Adopts the Envoy that an earlier run left behind if it was started with the same inputs; else starts a new one.
    async fn adopt_or_start(&self) -> Result<(Running, bool)> {
        folders::create_private(&self.folder).with_context(|| format!("cannot write to {}", self.folder.display()))?;
        let bootstrap = yaml::text(&self.bootstrap().to_json()).context("cannot write YAML")?;
        let start = EnvoyStart::new(&self.options.binary.path, self.arguments(), &bootstrap)?;
        let left_behind = EnvoyRecord::of_running(&self.folder);
        if let Some(record) = &left_behind
            && record.start == start
        {
            let identity = record.process.clone();
            tracing::info!(gateway = %self.gateway, pid = identity.pid, "adopted the Envoy of an earlier run");
            return Ok((Running { identity, child: None }, true));
        }
        let running = self.start(&bootstrap, start)?;
        if let Some(record) = left_behind {
            self.take_over(&record).await;
        }
        Ok((running, false))
    }

    fn start(&self, bootstrap: &str, start: EnvoyStart) -> Result<Running> {
        let path = self.folder.join("bootstrap.yaml");
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).context("cannot write the bootstrap")?;
        file.write_all(bootstrap.as_bytes()).context("cannot write the bootstrap")?;
        file.persist(&path).context("cannot write the bootstrap")?;
        let mut command = Command::new(&start.binary);
        command.args(&start.arguments).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C in a terminal must reach only Holdfast, which ends its Envoys in order.
        command.process_group(0);
        let mut child = command.spawn().with_context(|| format!("{} cannot be run", start.binary.display()))?;
        let target = LogTarget { gateway: self.gateway.clone(), ending: self.ending.clone() };
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(log_lines::pass_on(target.clone(), stdout));
        }
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(log_lines::pass_on(target.clone(), stderr));
        }
        let identity =
            child.id().and_then(ProcessIdentity::of).context("the process ended immediately after its start")?;
        let record = EnvoyRecord { process: identity.clone(), start };
        if let Err(error) = record.write(&self.folder) {
            tracing::warn!(gateway = %self.gateway, %error, "cannot record the process of this Envoy; a later run of \
                                                             Holdfast cannot adopt it");
        }
        let version = &self.options.binary.version;
        tracing::info!(gateway = %self.gateway, pid = identity.pid, version, "started an Envoy");
        Ok(Running { identity, child: Some(child) })
    }

    /// Ends the Envoy of an earlier run once the new one is ready; until then both listen on the ports.
    async fn take_over(&self, record: &EnvoyRecord) {
        let pid = record.process.pid;
        tracing::info!(gateway = %self.gateway, pid, "replacing the Envoy of an earlier run, which was started with \
                                                      other settings");
        let ready = async {
            while !admin::is_ready(&self.admin).await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        // After a timeout the Gateway still switches to the new Envoy.
        let _ = tokio::time::timeout(ENVOY_TAKE_OVER_MAX, ready).await;
        end_process(&record.process).await;
    }

    async fn end(&self, mut running: Running) {
        self.show("ending", Some(running.identity.pid), false);
        self.ending.store(true, Relaxed);
        admin::drain(&self.admin, ENVOY_DRAIN_MAX).await;
        running.identity.terminate();
        if tokio::time::timeout(GRACE, running.ended()).await.is_err() {
            tracing::warn!(gateway = %self.gateway, pid = running.identity.pid, "an Envoy did not end after SIGTERM; \
                                                                                 killing it");
            running.identity.kill();
            running.ended().await;
        }
        tracing::info!(gateway = %self.gateway, pid = running.identity.pid, "ended an Envoy");
        self.forget();
    }

    /// Sends requests to the admin interface of the running Envoy at intervals, without end.
    async fn watch(&self) -> ! {
        let mut last_answer = Instant::now();
        loop {
            tokio::time::sleep(ADMIN_CHECKED_EVERY).await;
            let is_silent = admin::answers(&self.admin).await == Some(false);
            last_answer = if is_silent { last_answer } else { Instant::now() };
            let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(view) = views.get_mut(&self.gateway) {
                view.last_answer = is_silent.then_some(last_answer);
            }
        }
    }

    fn forget(&self) {
        EnvoyRecord::remove(&self.folder);
        // The Envoy leaves its socket behind.
        let _ = fs::remove_file(&self.admin);
        self.views.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.gateway);
    }

    fn bootstrap(&self) -> Bootstrap {
        Bootstrap {
            gateway: self.gateway.to_string(),
            node_id: managed_node_id(&self.gateway),
            xds: self.options.xds.clone(),
            credentials: None,
            admin: Some(ListenAddress::Unix(self.admin.clone())),
            mode: Protocol::Delta,
            max_heap_bytes: MAX_HEAP_BYTES,
            max_connections: MAX_CONNECTIONS,
        }
    }

    fn arguments(&self) -> Vec<String> {
        let bootstrap = self.folder.join("bootstrap.yaml").to_string_lossy().into_owned();
        let concurrency = self.options.concurrency.to_string();
        let drain = ENVOY_DRAIN_MAX.as_secs().to_string();
        ["--config-path", &bootstrap, "--concurrency", &concurrency, "--disable-hot-restart"]
            .into_iter()
            .chain(["--drain-time-s", &drain, "--drain-strategy", "immediate"])
            .chain(["--log-level", "info", "--log-format", log_lines::FORMAT, "--log-format-escaped"])
            .chain(["--component-log-level", holdfast_translate::provision::QUIET])
            .map(str::to_owned)
            .collect()
    }

    fn show(&self, state: &'static str, pid: Option<u32>, adopted: bool) {
        let view = ManagedEnvoy {
            gateway: self.gateway.clone(),
            state,
            pid,
            adopted,
            was_connected: false,
            restarts: self.restarts,
            folder: self.folder.clone(),
            admin: self.admin.clone(),
            version: self.options.binary.version.clone(),
            last_answer: None,
        };
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        // While one Envoy takes over from another, it connects before its state is `running`.
        let was_connected =
            views.get(&self.gateway).is_some_and(|before| before.was_connected && before.state == "starting");
        views.insert(self.gateway.clone(), ManagedEnvoy { was_connected: was_connected && state == "running", ..view });
    }
}

/// Waits until the Envoy has to end, which is also the case if the sender is gone.
async fn stop_requested(ending: &mut watch::Receiver<bool>) {
    let _ = ending.wait_for(|ending| *ending).await;
}

/// Terminates a process, and kills it if it does not end.
async fn end_process(process: &ProcessIdentity) {
    process.terminate();
    if tokio::time::timeout(GRACE, process.ended()).await.is_err() {
        process.kill();
        process.ended().await;
    }
}

/// `envoys/<namespace>_<name>`; names cannot contain an underscore.
fn folder(data: &Path, gateway: &str) -> PathBuf {
    let mut name = gateway.replace('/', "_");
    if name.len() > ENVOY_FOLDER_BYTES_MAX {
        name = format!("{}_{}", &name[..name.floor_char_boundary(ENVOY_FOLDER_BYTES_MAX - 20)], short_hash(gateway));
    }
    data.join("envoys").join(name)
}

/// Names of Gateways may be long, but the paths of sockets must be short.
fn admin_socket(data: &Path, gateway: &str) -> PathBuf {
    data.join(format!("envoy-{}.sock", short_hash(gateway)))
}

fn short_hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..12].to_owned()
}
