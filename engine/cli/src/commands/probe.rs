//! `holdfast probe`: starts and kills probes for the Holdfast of another container, over a shared folder.
//!
//! This command does not see the contents of trials: the Envoys that it starts connect to Holdfast themselves.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments;
use crate::cli::LogFormat;
use crate::envoy::{EnvoyBinary, find};
use crate::failure::Failure;
use crate::log;
use crate::probe::process::ProbeProcess;
use crate::probe::protocol::{ProbeConnection, ProbeMessage, probe_socket, xds_socket};

/// The folder for probes, and the log.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// Folder that is shared with `holdfast run --probe-folder`; no other process may have access to it
    #[arg(long, env = "CONTROLLER_PROBE_FOLDER", value_name = "DIR")]
    pub probe_folder: PathBuf,
    /// off, error, warn, info, debug, trace, or directives such as info,holdfast_xds=debug
    #[arg(long, env = "CONTROLLER_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    #[arg(value_parser = arguments::log_level)]
    pub log_level: String,
    /// Form of the log, on standard error
    #[arg(long, env = "CONTROLLER_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// Runs probes until SIGTERM.
///
/// # Errors
/// Returns an error if no Envoy is available, or the folder is not writable.
pub fn run(args: &ProbeArgs) -> Result<(), Failure> {
    log::start(args.log_format, &args.log_level)?;
    let binary = find::find()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let socket = probe_socket(&args.probe_folder)?;
        // An existing socket was left behind: only one process uses the folder.
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).with_context(|| format!("cannot listen on {}", socket.display()))?;
        let mut sigterm = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        tracing::info!(version = binary.version, "waiting for Holdfast to request a probe");
        tokio::select! {
            _ = sigterm.recv() => Ok(()),
            // Dropping this future drops the child, which kills the probe.
            failed = keep(&listener, &args.probe_folder, &binary) => failed,
        }
    })
}

/// Runs one probe after the other: each connection is one probe.
async fn keep(listener: &UnixListener, folder: &Path, binary: &EnvoyBinary) -> Result<(), Failure> {
    loop {
        let (stream, _) = listener.accept().await.context("cannot listen any longer")?;
        keep_one(stream, folder, binary).await;
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
