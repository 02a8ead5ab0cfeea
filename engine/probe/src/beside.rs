//! Probe in a separate container, started and killed there by `holdfast probe`.
//!
//! The use of memory and CPU by this probe does not affect Holdfast.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::protocol::{ProbeConnection, ProbeMessage, probe_socket};

/// How long `holdfast probe` may take to start a probe.
const PROBE_REMOTE_START_MAX: Duration = Duration::from_secs(10);
/// How long `holdfast probe` may take to kill a probe.
const PROBE_REMOTE_END_MAX: Duration = Duration::from_secs(5);

/// A probe that runs in a separate container.
#[derive(Debug)]
pub(crate) struct Beside {
    connection: ProbeConnection,
    pid: u32,
    version: Arc<str>,
}

impl Beside {
    /// Requests the start of a probe.
    pub(crate) async fn start(folder: &Path, node: &str) -> Result<Self> {
        let socket = probe_socket(folder)?;
        let stream = UnixStream::connect(&socket);
        let stream = stream.await.with_context(|| format!("no sidecar runs a probe at {}", socket.display()))?;
        let mut connection = ProbeConnection::new(stream);
        connection.send(node).await?;
        let received = timeout(PROBE_REMOTE_START_MAX, connection.receive())
            .await
            .context("the sidecar of the probe does not answer")?;
        match serde_json::from_str(&received.context("the sidecar of the probe has ended")?)? {
            ProbeMessage::Started { pid, version } => Ok(Self { connection, pid, version: version.into() }),
            ProbeMessage::Failed(why) | ProbeMessage::Ended(why) => bail!("{why}"),
        }
    }

    /// The process id in its container.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The version of its Envoy.
    pub(crate) fn version(&self) -> Arc<str> {
        self.version.clone()
    }

    /// Waits until the probe has ended; returns how it ended.
    pub(crate) async fn ended(&mut self) -> String {
        let received = self.connection.receive().await;
        match received.and_then(|line| serde_json::from_str(&line).ok()) {
            Some(ProbeMessage::Ended(how)) => how,
            _ => "its sidecar has ended".into(),
        }
    }

    /// Requests the end of the probe.
    pub(crate) async fn end(mut self) {
        self.connection.fall_silent().await;
        if timeout(PROBE_REMOTE_END_MAX, self.ended()).await.is_err() {
            tracing::warn!("the sidecar of the probe does not report that the probe has ended");
        }
    }
}
