//! The side of `holdfast probe`: starts and kills probes for the Holdfast of another container, over a shared folder.
//!
//! The contents of trials are not visible here: the Envoys that are started connect to Holdfast themselves.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::net::{UnixListener, UnixStream};

use crate::envoy::EnvoyBinary;
use crate::process::ProbeProcess;
use crate::protocol::{ProbeConnection, ProbeMessage, probe_socket, xds_socket};

/// The listener for requests of a probe.
#[derive(Debug)]
pub struct Sidecar {
    listener: UnixListener,
    folder: PathBuf,
}

impl Sidecar {
    /// Listens in a folder that no other process has access to, except for the Holdfast that requests probes.
    ///
    /// # Errors
    /// Returns an error if the folder is not writable, or its path is too long for sockets.
    pub fn listen(folder: &Path) -> Result<Self> {
        let socket = probe_socket(folder)?;
        // An existing socket was left behind: only one process uses the folder.
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).with_context(|| format!("cannot listen on {}", socket.display()))?;
        Ok(Self { listener, folder: folder.to_owned() })
    }

    /// Runs one probe after the other: each connection is one probe. Dropping the future kills the running probe.
    ///
    /// # Errors
    /// Returns an error if the listener fails.
    pub async fn keep(&self, binary: &EnvoyBinary) -> Result<Infallible> {
        loop {
            let (stream, _) = self.listener.accept().await.context("cannot listen any longer")?;
            keep_one(stream, &self.folder, binary).await;
        }
    }
}

async fn keep_one(stream: UnixStream, folder: &Path, binary: &EnvoyBinary) {
    let mut connection = ProbeConnection::new(stream);
    let Some(node) = connection.receive().await else { return };
    let own = folder.join("envoy");
    let started = xds_socket(folder).and_then(|socket| ProbeProcess::start(binary, &own, &socket, &node));
    let mut process = match started {
        Ok(process) => process,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "cannot start the probe");
            report(&mut connection, &ProbeMessage::Failed(format!("{error:#}"))).await;
            return;
        }
    };
    report(&mut connection, &ProbeMessage::Started { pid: process.pid(), version: binary.version.clone() }).await;
    let how = tokio::select! {
        how = process.ended() => how,
        // The connection was closed: the probe is no longer needed. No further line arrives on it.
        _ = connection.receive() => "it was killed".into(),
    };
    tracing::info!(how, "a probe has ended");
    process.kill(&own).await;
    report(&mut connection, &ProbeMessage::Ended(how)).await;
}

async fn report(connection: &mut ProbeConnection, message: &ProbeMessage) {
    let Ok(line) = serde_json::to_string(message) else { return };
    if let Err(error) = connection.send(&line).await {
        tracing::debug!(%error, "Holdfast has closed the connection of the probe");
    }
}
