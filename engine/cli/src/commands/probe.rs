//! `holdfast probe`: starts and kills probes for the Holdfast of another container, over a shared folder.
//!
//! The probes are run by [`holdfast_probe::sidecar`].

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use holdfast_probe::envoy::find;
use holdfast_probe::sidecar::Sidecar;
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments;
use crate::cli::LogFormat;
use crate::failure::Failure;
use crate::log;

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
        let sidecar = Sidecar::listen(&args.probe_folder)?;
        let mut sigterm = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        tracing::info!(version = binary.version, "waiting for Holdfast to request a probe");
        tokio::select! {
            _ = sigterm.recv() => Ok(()),
            // Dropping this future drops the child, which kills the probe.
            failed = sidecar.keep(&binary) => failed.map(|never| match never {}).map_err(Failure::from),
        }
    })
}
