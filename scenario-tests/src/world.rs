//! The world of one story: its folder, manifests, echo backends, ports and processes.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::binary;
use crate::echo::{Echo, EchoOptions};
use crate::holdfast::{Holdfast, HoldfastOptions};
use crate::manifests;
use crate::ports::ClaimedPort;
use crate::process::{self, Finished, Process};

/// Number of requests that an echo backend of a story records: enough for all requests of any story.
const RECORDED_MAX: usize = 1_000_000;

/// A world; clones share it.
#[derive(Clone, Debug)]
pub struct World {
    inner: Arc<SharedWorld>,
}

#[derive(Debug)]
struct SharedWorld {
    folder: TempDir,
    ports: Mutex<Vec<ClaimedPort>>,
    written: AtomicU32,
}

impl World {
    /// Creates a world: an empty folder, no processes.
    pub fn new() -> Result<Self> {
        let folder = TempDir::with_prefix("holdfast-story-")?;
        for name in ["manifests", "data", "logs", "drafts"] {
            fs::create_dir(folder.path().join(name))?;
        }
        Ok(Self { inner: Arc::new(SharedWorld { folder, ports: Mutex::default(), written: AtomicU32::new(0) }) })
    }

    /// The folder with all files of this story.
    pub fn folder(&self) -> &Path {
        self.inner.folder.path()
    }

    /// The folder of manifests that Holdfast reads.
    pub fn manifests(&self) -> PathBuf {
        self.folder().join("manifests")
    }

    /// The folder of `--data-dir`.
    pub fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    /// Returns the path of the log of a new process.
    pub fn log(&self, name: &str) -> PathBuf {
        let number = self.inner.written.fetch_add(1, Ordering::Relaxed);
        self.folder().join("logs").join(format!("{number:03}-{name}.log"))
    }

    /// Claims a free port until the world is dropped.
    pub fn port(&self) -> Result<u16> {
        self.keep(ClaimedPort::claim()?)
    }

    /// Claims a port that is also free for UDP until the world is dropped.
    pub fn udp_port(&self) -> Result<u16> {
        self.keep(ClaimedPort::claim_both()?)
    }

    fn keep(&self, port: ClaimedPort) -> Result<u16> {
        let number = port.number();
        lock(&self.inner.ports).push(port);
        Ok(number)
    }

    /// Writes or replaces a manifest atomically: readers see the old file or the new one, never a part.
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

    /// Writes an HTTPRoute of `default/public` into a file that is named after it.
    pub fn route(&self, name: &str, spec: &str) -> Result<()> {
        self.write(&format!("route-{name}.yaml"), manifests::http_route(name, spec))
    }

    /// Starts an echo backend, the only pod of a Service of the same name in the namespace `default`.
    pub async fn backend(&self, name: &str) -> Result<Echo> {
        self.backend_in(manifests::NAMESPACE, name, None).await
    }

    /// Starts an echo backend, the only pod of a Service of the same name.
    pub async fn backend_in(&self, namespace: &str, name: &str, app_protocol: Option<&str>) -> Result<Echo> {
        let echo = self.pod(namespace, name, name).await?;
        let service = manifests::service(namespace, name, app_protocol, &[echo.address()]);
        self.write(&format!("service-{namespace}-{name}.yaml"), service)?;
        Ok(echo)
    }

    /// Starts an echo backend without any manifest.
    pub async fn pod(&self, namespace: &str, service: &str, pod: &str) -> Result<Echo> {
        let options = EchoOptions { recorded_max: RECORDED_MAX, ..EchoOptions::new(namespace, service, pod) };
        Ok(Echo::start(options).await?)
    }

    /// Starts Holdfast with a managed Envoy for each Gateway and waits until it is ready.
    pub async fn run(&self) -> Result<Holdfast> {
        self.run_with(HoldfastOptions::new(self)?).await
    }

    /// Starts Holdfast with these options and waits until it is ready.
    pub async fn run_with(&self, options: HoldfastOptions) -> Result<Holdfast> {
        let mut holdfast = Holdfast::start(self, options)?;
        holdfast.comes_to_be_ready().await?;
        Ok(holdfast)
    }

    /// Runs a command of `holdfast` to its end.
    pub async fn command(&self, args: &[&str]) -> Result<Finished> {
        self.command_with(args, &[]).await
    }

    /// Runs a command of `holdfast` to its end, with additional environment variables.
    pub async fn command_with(&self, args: &[&str], env: &[(String, String)]) -> Result<Finished> {
        let log = self.log(args.first().copied().unwrap_or("holdfast"));
        Process::start(&binary::holdfast()?, args, env, &log)?.finish().await
    }

    /// The ends of all logs, for a failed story. Commands in succession with the same output are one entry: a poll would
    /// hide everything else.
    pub fn logs(&self) -> String {
        let folder = self.folder().join("logs");
        let mut files: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
        let mut entries: Vec<LogEntry> = Vec::new();
        for path in &files {
            let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match entries.last_mut().filter(|last| last.is_like(&name, &text)) {
                _ if text.is_empty() => {}
                Some(last) => last.until = Some(name),
                None => entries.push(LogEntry { name, until: None, text }),
            }
        }
        entries.iter().map(ToString::to_string).collect()
    }

    /// Ends the remaining processes of a failed story: processes with the folder of this world in their command line.
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

/// The output of one process, or the same output of several processes in succession.
struct LogEntry {
    name: String,
    /// The last file with this output, if there are several.
    until: Option<String>,
    text: String,
}

impl LogEntry {
    /// Returns whether a file is of a process of the same name, with the same output.
    fn is_like(&self, name: &str, text: &str) -> bool {
        let unnumbered = |name: &str| name.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
        unnumbered(&self.name) == unnumbered(name) && self.text == text
    }
}

impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = self.until.as_ref().map(|until| format!(" to {until}")).unwrap_or_default();
        writeln!(f, "--- {}{until}\n{}", self.name, process::tail(&self.text))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_outputs_in_succession_are_one_entry() -> Result<()> {
        let world = World::new()?;
        for text in ["1", "2", "2", "", "2", "3", "2"] {
            fs::write(world.log("kubectl"), text)?;
        }
        fs::write(world.log("holdfast"), "2")?;
        let shown = "--- 000-kubectl.log\n1\n--- 001-kubectl.log to 004-kubectl.log\n2\n--- 005-kubectl.log\n3\n\
                     --- 006-kubectl.log\n2\n--- 007-holdfast.log\n2\n";
        assert_eq!(world.logs(), shown);
        Ok(())
    }
}
