//! The world of one story: its folder, manifests, echo back ends, ports and processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use holdfast_engine::run::echo::{Echo, EchoOptions};
use tempfile::TempDir;

use crate::binary;
use crate::holdfast::{Holdfast, HoldfastOptions};
use crate::manifests;
use crate::ports::Port;
use crate::process::{self, Finished, Process};

/// How many requests an echo back end of a story remembers: all of them, in every story there is.
const RECORDED_MAX: usize = 1_000_000;

/// A world; copies are the same world.
#[derive(Clone, Debug)]
pub struct World {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: TempDir,
    ports: Mutex<Vec<Port>>,
    written: AtomicU32,
}

impl World {
    /// A new world: an empty folder, nothing running.
    pub fn new() -> Result<Self> {
        let folder = TempDir::with_prefix("holdfast-story-")?;
        for name in ["manifests", "data", "logs", "drafts"] {
            fs::create_dir(folder.path().join(name))?;
        }
        Ok(Self { inner: Arc::new(Inner { folder, ports: Mutex::default(), written: AtomicU32::new(0) }) })
    }

    /// The folder that everything of this story is in.
    pub fn folder(&self) -> &Path {
        self.inner.folder.path()
    }

    /// The folder that Holdfast reads.
    pub fn manifests(&self) -> PathBuf {
        self.folder().join("manifests")
    }

    /// What Holdfast gets as `--data-dir`.
    pub fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    /// A name for the log of a new process.
    pub fn log(&self, name: &str) -> PathBuf {
        let number = self.inner.written.fetch_add(1, Ordering::Relaxed);
        self.folder().join("logs").join(format!("{number:03}-{name}.log"))
    }

    /// Claims a free port for as long as this world stands.
    pub fn port(&self) -> Result<u16> {
        let port = Port::claim()?;
        let number = port.number();
        lock(&self.inner.ports).push(port);
        Ok(number)
    }

    /// Writes or replaces a manifest at once: readers see the old file or the new one, never a part.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> Result<()> {
        let number = self.inner.written.fetch_add(1, Ordering::Relaxed);
        let draft = self.folder().join("drafts").join(format!("{number}"));
        fs::write(&draft, text)?;
        fs::rename(&draft, self.manifests().join(name)).with_context(|| format!("write {name}"))
    }

    /// Deletes a manifest.
    pub fn delete(&self, name: &str) -> Result<()> {
        fs::remove_file(self.manifests().join(name)).with_context(|| format!("delete {name}"))
    }

    /// Writes the class and the Gateway `default/public` with one plain listener on a new port, which is returned.
    pub fn gateway(&self) -> Result<u16> {
        let port = self.port()?;
        self.gateway_with(&manifests::http_listener(port))?;
        Ok(port)
    }

    /// Writes the class and the Gateway `default/public` with these listeners.
    pub fn gateway_with(&self, listeners: &str) -> Result<()> {
        self.write("gateway.yaml", manifests::documents(&[manifests::class(), manifests::gateway("public", listeners)]))
    }

    /// Writes an HTTPRoute of `default/public` into a file of its name.
    pub fn route(&self, name: &str, spec: &str) -> Result<()> {
        self.write(&format!("route-{name}.yaml"), manifests::http_route(name, spec))
    }

    /// Starts one echo back end, the only pod of a Service of the same name in the namespace `default`.
    pub async fn backend(&self, name: &str) -> Result<Echo> {
        self.backend_in(manifests::NAMESPACE, name, None).await
    }

    /// Starts one echo back end, the only pod of a Service of the same name.
    pub async fn backend_in(&self, namespace: &str, name: &str, app_protocol: Option<&str>) -> Result<Echo> {
        let echo = self.pod(namespace, name, name).await?;
        let service = manifests::service(namespace, name, app_protocol, &[echo.address()]);
        self.write(&format!("service-{namespace}-{name}.yaml"), service)?;
        Ok(echo)
    }

    /// Starts one echo back end without any manifest.
    pub async fn pod(&self, namespace: &str, service: &str, pod: &str) -> Result<Echo> {
        let options = EchoOptions { recorded_max: RECORDED_MAX, ..EchoOptions::new(namespace, service, pod) };
        Ok(Echo::start(options).await?)
    }

    /// Starts Holdfast with a managed Envoy for each Gateway and waits until it says that it is ready.
    pub async fn run(&self) -> Result<Holdfast> {
        self.run_with(HoldfastOptions::new(self)?).await
    }

    /// Starts Holdfast with these options and waits until it says that it is ready.
    pub async fn run_with(&self, options: HoldfastOptions) -> Result<Holdfast> {
        let mut holdfast = Holdfast::start(self, options)?;
        holdfast.comes_to_be_ready().await?;
        Ok(holdfast)
    }

    /// Runs a command of `holdfast` to its end.
    pub async fn command(&self, args: &[&str]) -> Result<Finished> {
        self.command_with(args, &[]).await
    }

    /// Runs a command of `holdfast` to its end, with variables added to its environment.
    pub async fn command_with(&self, args: &[&str], env: &[(String, String)]) -> Result<Finished> {
        let log = self.log(args.first().copied().unwrap_or("holdfast"));
        Process::start(&binary::holdfast()?, args, env, &log)?.finish().await
    }

    /// The ends of all logs, for a story that failed.
    pub fn logs(&self) -> String {
        let folder = self.folder().join("logs");
        let mut files: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
        let show = |path: &PathBuf| {
            let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if text.is_empty() { String::new() } else { format!("--- {name}\n{}\n", process::tail(&text)) }
        };
        files.iter().map(show).collect()
    }

    /// Ends what a failed story may have left: processes whose command line names this world's folder.
    pub fn end(&self) {
        for (signal, rest_ms) in [("TERM", 500), ("KILL", 0)] {
            let left = process::naming(self.folder());
            if left.is_empty() {
                return;
            }
            for id in left {
                process::signal(id, signal);
            }
            std::thread::sleep(Duration::from_millis(rest_ms));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
