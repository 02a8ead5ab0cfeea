//! `holdfast demo`: the product shown in a minute. The demo starts Holdfast, an Envoy and two backends, and
//! serves sample manifests. It breaks one route in a way that only Envoy detects and another in a way that Holdfast
//! detects at once, shows that all clients are served throughout, also across a restart, repairs the route, and
//! explains each step.
//!
//! Everything is real: `holdfast run` as a separate process, a real Envoy, real requests. The expected result of each
//! step is checked; the demo fails if the product fails.

/// Prints a line. A closed standard output must not end the demo, which would leave processes behind.
macro_rules! show {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout().lock(), $($text)*);
    }};
}

mod backend;
mod client;
mod manifests;
mod pages;
mod processes;
mod stage;
mod story;

use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use stage::DemoStage;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The message for an incomplete demo.
const INTERRUPTED: &str = "the demo was interrupted before its end";

/// `holdfast demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Leave everything running at the end, to be tried by hand (ends with Ctrl-C)
    #[arg(long, env = "CONTROLLER_KEEP")]
    pub keep: bool,
}

/// Runs the demo; the exit code is 0 if every step had the expected result.
///
/// # Errors
/// Returns an error if the demo cannot start, or a step did not have the expected result.
pub fn run(args: &DemoArgs) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    let shown = runtime.block_on(show(args));
    // Envoy may still be downloading.
    runtime.shutdown_background();
    shown?;
    Ok(ExitCode::SUCCESS)
}

async fn show(args: &DemoArgs) -> anyhow::Result<()> {
    let mut interrupts = Interrupts::new()?;
    show!("Holdfast demo: two teams share one Gateway; one of them makes mistakes.\n");
    show!("1. Starting Holdfast, an Envoy and two backends (the first run downloads Envoy, which takes a while).");
    let mut stage = tokio::select! {
        stage = DemoStage::build() => stage?,
        () = interrupts.next() => bail!(INTERRUPTED),
    };
    let outcome = tokio::select! {
        outcome = story::run(&mut stage) => outcome,
        () = interrupts.next() => Err(anyhow!(INTERRUPTED)),
    };
    match &outcome {
        Ok(()) if args.keep => {
            show!(
                "Everything keeps running: edit the manifests in {} and send requests again.",
                stage.manifests().display()
            );
            show!("Ctrl-C ends it.");
            interrupts.next().await;
        }
        Ok(()) => {}
        Err(_) => eprintln!("\n--- the log of holdfast run:\n{}", stage.log()),
    }
    stage.clear().await;
    outcome
}

/// The signals that end the demo, which then ends all processes that it started.
struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
