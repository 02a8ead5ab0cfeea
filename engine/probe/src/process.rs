//! Process of the probe: started with production's bootstrap, recorded on disk, ended by its process id.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use holdfast_envoy::bootstrap::{Bootstrap, MAX_CONNECTIONS, MAX_HEAP_BYTES, ServerAddress};
use holdfast_envoy::yaml;
use holdfast_xds::connection::Protocol;
use tokio::process::{Child, Command};

use crate::envoy::EnvoyBinary;
use crate::envoy::log_lines::{self, LogTarget};
use crate::envoy::process::ProcessIdentity;
use crate::envoy::record::{EnvoyRecord, EnvoyStart};
use crate::folders;

/// How long the probe may take to end before it is killed. It serves no requests that it would have to finish.
const GRACE: Duration = Duration::from_secs(1);
/// The probe's fleet, and its name in logs.
const NAME: &str = "holdfast/probe";

/// A running probe.
#[derive(Debug)]
pub(crate) struct ProbeProcess {
    child: Child,
    identity: ProcessIdentity,
    version: Arc<str>,
}

impl ProbeProcess {
    /// Starts a probe. `node` is its `node.id`.
    pub(crate) fn start(binary: &EnvoyBinary, folder: &Path, socket: &Path, node: &str) -> Result<Self> {
        folders::create_private(folder).with_context(|| format!("cannot write to {}", folder.display()))?;
        let path = folder.join("bootstrap.yaml");
        let text = yaml::text(&bootstrap(socket, node).to_json()).context("cannot write YAML")?;
        let mut file = tempfile::NamedTempFile::new_in(folder).context("cannot write the bootstrap")?;
        file.write_all(text.as_bytes()).context("cannot write the bootstrap")?;
        file.persist(&path).context("cannot write the bootstrap")?;
        let start = EnvoyStart::new(&binary.path, arguments(&path), &text)
            .with_context(|| format!("{} cannot be run", binary.path.display()))?;
        let mut command = Command::new(&start.binary);
        command.args(&start.arguments).current_dir(folder).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C in a terminal must reach only Holdfast.
        command.process_group(0);
        let mut child = command.spawn().with_context(|| format!("{} cannot be run", start.binary.display()))?;
        // Its warnings about contents are also in its answers, so they are not logged as warnings.
        let target = LogTarget { gateway: NAME.into(), ending: Arc::new(true.into()) };
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(log_lines::pass_on(target.clone(), stdout));
        }
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(log_lines::pass_on(target, stderr));
        }
        let identity =
            child.id().and_then(ProcessIdentity::of).context("the process ended immediately after its start")?;
        let record = EnvoyRecord { process: identity.clone(), start };
        if let Err(error) = record.write(folder) {
            tracing::warn!(%error, "cannot record the process of the probe; after a crash of Holdfast the probe would \
                                    keep running");
        }
        tracing::debug!(pid = identity.pid, "started a probe");
        Ok(Self { child, identity, version: binary.version.as_str().into() })
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// The version of its Envoy.
    pub(crate) fn version(&self) -> Arc<str> {
        self.version.clone()
    }

    /// Waits until the probe has ended; returns how it ended.
    pub(crate) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Ends the probe in order.
    pub(crate) async fn end(mut self, folder: &Path) {
        self.identity.terminate();
        if tokio::time::timeout(GRACE, self.ended()).await.is_err() {
            self.kill(folder).await;
        } else {
            EnvoyRecord::remove(folder);
        }
    }

    /// Kills the probe, which may be in a state in which it ignores signals.
    pub(crate) async fn kill(mut self, folder: &Path) {
        self.identity.kill();
        self.ended().await;
        EnvoyRecord::remove(folder);
    }
}

/// Kills the probe of an earlier run that was not ended in order.
pub(crate) async fn end_left_behind(folder: &Path) {
    if let Some(record) = EnvoyRecord::of_running(folder) {
        tracing::info!(pid = record.process.pid, "ending the probe of an earlier run");
        record.process.kill();
        record.process.ended().await;
        EnvoyRecord::remove(folder);
    }
}

fn bootstrap(socket: &Path, node: &str) -> Bootstrap {
    Bootstrap {
        gateway: NAME.into(),
        node_id: node.into(),
        xds: ServerAddress::Unix(socket.to_owned()),
        credentials: None,
        admin: None,
        mode: Protocol::Delta,
        max_heap_bytes: MAX_HEAP_BYTES,
        max_connections: MAX_CONNECTIONS,
    }
}

fn arguments(bootstrap: &Path) -> Vec<String> {
    let bootstrap = bootstrap.to_string_lossy();
    ["--config-path", &*bootstrap, "--concurrency", "1", "--disable-hot-restart"]
        .into_iter()
        // Removed listeners are released at once: otherwise memory would grow with every listener.
        .chain(["--drain-time-s", "1", "--drain-strategy", "immediate"])
        .chain(["--log-level", "error", "--log-format", log_lines::FORMAT, "--log-format-escaped"])
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A probe with a script as its binary.
    fn start(folder: &Path, script: &str) -> ProbeProcess {
        let path = folder.join("envoy");
        fs::write(folder.join("new"), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(folder.join("new"), fs::Permissions::from_mode(0o755)).unwrap();
        // Moved into place: a file that is open for writing cannot be executed.
        fs::rename(folder.join("new"), &path).unwrap();
        let binary = EnvoyBinary { path, version: "0.0.0".into() };
        ProbeProcess::start(&binary, &folder.join("probe"), &folder.join("xds.sock"), "node").unwrap()
    }

    #[tokio::test]
    async fn it_has_the_bootstrap_of_production_and_no_admin_interface() {
        let folder = tempfile::tempdir().unwrap();
        let process = start(folder.path(), "exec sleep 600");
        let text = fs::read_to_string(folder.path().join("probe/bootstrap.yaml")).unwrap();
        assert!(text.contains("re2.max_program_size.error_level") && text.contains("id: node"), "{text}");
        assert!(!text.contains("admin:"), "{text}");
        process.end(&folder.path().join("probe")).await;
    }

    #[tokio::test]
    async fn a_probe_that_ignores_sigterm_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let process = start(folder.path(), "trap '' TERM; while true; do sleep 1; done");
        let identity = process.identity.clone();
        process.end(&folder.path().join("probe")).await;
        assert!(!identity.is_running());
        assert!(!folder.path().join("probe/process.json").exists());
    }

    #[tokio::test]
    async fn one_that_was_left_behind_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let process = start(folder.path(), "exec sleep 600");
        let identity = process.identity.clone();
        // As after a crash: the process is not ended.
        std::mem::forget(process);
        end_left_behind(&folder.path().join("probe")).await;
        assert!(!identity.is_running());
    }

    #[tokio::test]
    async fn a_record_of_another_process_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let process = start(folder.path(), "exec sleep 600");
        let path = folder.path().join("probe/process.json");
        let ours =
            fs::read_to_string(&path).unwrap().replace(&process.pid().to_string(), &std::process::id().to_string());
        fs::write(&path, ours).unwrap();
        end_left_behind(&folder.path().join("probe")).await;
        process.kill(&folder.path().join("probe")).await;
    }
}
