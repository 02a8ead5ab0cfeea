//! Processes of the demo: `holdfast run`, and an Envoy.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use holdfast_envoy::bootstrap::{Bootstrap, ListenAddress, MAX_CONNECTIONS, MAX_HEAP_BYTES, ServerAddress};
use holdfast_envoy::yaml;
use holdfast_xds::connection::Protocol;
use holdfast_xds::identity::FLAGS_FIELD;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

/// How long a process may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// Envoy's default limit of RE2 programs.
const RE2_OF_ENVOY: u32 = 100;

/// The arguments of `holdfast run`, equal for each start.
#[derive(Clone, Debug)]
pub(super) struct Start {
    /// The folder of the demo: data, manifests and logs are below it.
    pub(super) folder: PathBuf,
    /// The listen address of diagnostics.
    pub(super) diagnostics: SocketAddr,
    /// The listen address of metrics.
    pub(super) metrics: SocketAddr,
}

impl Start {
    /// The arguments after `holdfast`.
    fn arguments(&self) -> Vec<String> {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let settings = [
            ("--manifests", path("manifests")),
            ("--data-dir", path("data")),
            ("--envoy", "none".to_owned()),
            ("--probe", "off".to_owned()),
            ("--feature-gates", "FallbackConfiguration=true".to_owned()),
            ("--diagnostics-listen", self.diagnostics.to_string()),
            ("--metrics-listen", self.metrics.to_string()),
        ];
        let settings = settings.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
        ["run".to_owned()]
            .into_iter()
            .chain(settings)
            .chain(["--use-last-valid-config-for-fallback".to_owned()])
            .collect()
    }

    /// Starts `holdfast run`.
    pub(super) fn holdfast(&self) -> anyhow::Result<Child> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let log = fs::File::options().append(true).create(true).open(self.folder.join("log"))?;
        let mut command = Command::new(program);
        command.args(self.arguments()).stderr(log);
        start(command).context("cannot start holdfast run")
    }
}

/// Starts an Envoy that joins the Gateway. Its bootstrap is the generated one without the raised limit of the regex
/// engine, like a bootstrap that a user wrote.
pub(super) fn envoy(binary: &Path, folder: &Path, admin: SocketAddr) -> anyhow::Result<Child> {
    let bootstrap = Bootstrap {
        gateway: "infra/public".into(),
        node_id: "demo".into(),
        xds: ServerAddress::Unix(folder.join("data/xds.sock")),
        credentials: None,
        admin: Some(ListenAddress::Tcp(admin)),
        mode: Protocol::Delta,
        max_heap_bytes: MAX_HEAP_BYTES,
        max_connections: MAX_CONNECTIONS,
    };
    let path = folder.join("bootstrap.yaml");
    fs::write(&path, yaml::text(&with_limits_of_envoy(bootstrap.to_json())?).context("cannot write YAML")?)?;
    let log = fs::File::create(folder.join("envoy.log"))?;
    let mut command = Command::new(binary);
    command.arg("--config-path").arg(&path).args(["--concurrency", "1", "--disable-hot-restart"]).stderr(log);
    start(command).with_context(|| format!("cannot start {}", binary.display()))
}

fn with_limits_of_envoy(mut bootstrap: Value) -> anyhow::Result<Value> {
    let mut set = |pointer: &str, value: Value| {
        let place = bootstrap.pointer_mut(pointer).with_context(|| format!("the bootstrap has no {pointer}"));
        place.map(|place| *place = value)
    };
    for level in ["error_level", "warn_level"] {
        set(&format!("/layered_runtime/layers/0/static_layer/re2.max_program_size.{level}"), json!(RE2_OF_ENVOY))?;
    }
    let flags = FLAGS_FIELD.replace('/', "~1");
    set(&format!("/node/metadata/{flags}"), json!(format!("re2={RE2_OF_ENVOY}")))?;
    Ok(bootstrap)
}

fn start(mut command: Command) -> std::io::Result<Child> {
    // Ctrl-C must reach only the demo, which ends the processes that it started.
    command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0).kill_on_drop(true).spawn()
}

/// Ends a process, and waits for its end.
pub(super) async fn end(process: &mut Child) {
    let pid = process.id().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // If the process has already ended, there is nothing to do.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    if tokio::time::timeout(END_TIMEOUT, process.wait()).await.is_err() {
        let _ = process.kill().await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn the_bootstrap_of_the_demo_has_the_limits_of_envoy() {
        let bootstrap = Bootstrap {
            gateway: "infra/public".into(),
            node_id: "demo".into(),
            xds: ServerAddress::Unix("/x".into()),
            credentials: None,
            admin: None,
            mode: Protocol::Delta,
            max_heap_bytes: MAX_HEAP_BYTES,
            max_connections: MAX_CONNECTIONS,
        };
        let text = with_limits_of_envoy(bootstrap.to_json()).unwrap().to_string();
        assert!(text.contains("\"re2=100\"") && text.contains("\"re2.max_program_size.error_level\":100"), "{text}");
        assert!(!text.contains("10000"), "{text}");
    }
}
