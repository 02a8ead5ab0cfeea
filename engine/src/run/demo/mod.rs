//! `holdfast demo`: the product shown in a minute. It starts Holdfast, an Envoy and a few echo back ends, serves sample
//! manifests, breaks one route, shows that its neighbours stay, repairs it, and says what happened at each step.
//!
//! Everything is real: `holdfast run` as a process of its own, a real Envoy, real requests. What a step expects is
//! checked; the demo fails where the product does.

mod ask;
mod manifests;
mod stage;
mod story;

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::failure::Failure;
use stage::Stage;

/// `holdfast demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Leave everything running at the end, to be tried by hand (ends with Ctrl-C)
    #[arg(long, env = "CONTROLLER_KEEP")]
    pub keep: bool,
}

/// Tells the story; exit code 0 where everything happened as it says.
///
/// # Errors
/// Where the demo cannot start, or a step did not happen as expected.
pub fn run(args: &DemoArgs) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(show(args))?;
    Ok(ExitCode::SUCCESS)
}

async fn show(args: &DemoArgs) -> anyhow::Result<()> {
    let mut stage = Stage::build().await?;
    let told = tokio::select! {
        told = story::tell(&stage, args.keep) => told,
        signal = tokio::signal::ctrl_c() => signal.context("cannot listen for Ctrl-C"),
    };
    if told.is_err() {
        eprintln!("\n--- the log of holdfast run:\n{}", stage.log());
    }
    stage.clear().await;
    told
}
