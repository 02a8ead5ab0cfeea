//! `holdfast drain`: waits until its Pod is terminated, then drains the connections of the Envoy in the Pod.
//!
//! Envoy itself receives SIGTERM only after a pause, and has no notice of it before.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::envoy::admin;
use crate::failure::Failure;

/// The Envoy to drain.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Unix socket of Envoy's admin interface
    #[arg(long, env = "CONTROLLER_ADMIN_SOCKET", value_name = "PATH")]
    pub admin_socket: PathBuf,
    /// Maximum time (seconds) to wait for requests in progress
    #[arg(long, env = "CONTROLLER_DRAIN_SECONDS", value_name = "SECONDS", default_value_t = 30)]
    pub drain_seconds: u32,
}

/// Waits for SIGTERM, then drains.
///
/// # Errors
/// Returns an error if the process cannot wait for signals.
pub fn run(args: &DrainArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let mut sigterm = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        eprintln!("waiting for SIGTERM to drain Envoy");
        sigterm.recv().await;
        admin::drain(&args.admin_socket, Duration::from_secs(args.drain_seconds.into())).await;
        Ok(())
    })
}
