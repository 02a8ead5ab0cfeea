//! `holdfast drain`: waits until its Pod is to end, and tells the Envoy beside it to let its connections end.
//!
//! Envoy itself is asked to end only after a pause, and knows of nothing before.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::envoy::admin;
use super::failure::Failure;

/// The Envoy that is to be drained.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// The unix socket of Envoy's admin interface
    #[arg(long, env = "CONTROLLER_ADMIN_SOCKET", value_name = "PATH")]
    pub admin_socket: PathBuf,
    /// The longest time (seconds) for which requests that are under way are waited for
    #[arg(long, env = "CONTROLLER_DRAIN_SECONDS", value_name = "SECONDS", default_value_t = 30)]
    pub drain_seconds: u32,
}

/// Waits for SIGTERM, then drains.
///
/// # Errors
/// Where signals cannot be waited for.
pub fn run(args: &DrainArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let mut asked = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        eprintln!("waits until Envoy is to be drained");
        asked.recv().await;
        admin::drain(&args.admin_socket, Duration::from_secs(args.drain_seconds.into())).await;
        Ok(())
    })
}
