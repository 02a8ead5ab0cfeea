//! `holdfast demo`: the product shown in a minute. It starts Holdfast, an Envoy and a few echo back ends, serves sample
//! manifests, breaks a route in a way that only Envoy notices and another in a way that Holdfast sees at once, shows that
//! everybody is served all the while, also across a restart, repairs it, and says what happened at each step.
//!
//! Everything is real: `holdfast run` as a process of its own, a real Envoy, real requests. What a step expects is
//! checked; the demo fails where the product does.

/// Prints a line. A reader that has gone away is no reason to leave processes behind.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout().lock(), $($text)*);
    }};
}

mod ask;
mod manifests;
mod pages;
mod processes;
mod stage;
mod story;

use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::Failure;
use stage::Stage;

/// Not every step was seen.
const INTERRUPTED: &str = "interrupted before its end";

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
    let shown = runtime.block_on(show(args));
    // Envoy may still be being fetched.
    runtime.shutdown_background();
    shown?;
    Ok(ExitCode::SUCCESS)
}

async fn show(args: &DemoArgs) -> anyhow::Result<()> {
    let mut interrupts = Interrupts::new()?;
    say!("Holdfast demo: two teams share one Gateway; one of them makes mistakes.\n");
    say!("1. Starting Holdfast, an Envoy and two back ends (the first time Envoy is fetched, which takes a while).");
    let mut stage = tokio::select! {
        stage = Stage::build() => stage?,
        () = interrupts.next() => bail!(INTERRUPTED),
    };
    let told = tokio::select! {
        told = story::tell(&mut stage) => told,
        () = interrupts.next() => Err(anyhow!(INTERRUPTED)),
    };
    match &told {
        Ok(()) if args.keep => {
            say!("Everything is left running: edit the manifests in {} and ask again.", stage.manifests().display());
            say!("Ctrl-C ends it.");
            interrupts.next().await;
        }
        Ok(()) => {}
        Err(_) => eprintln!("\n--- the log of holdfast run:\n{}", stage.log()),
    }
    stage.clear().await;
    told
}

/// Whoever ends the demo: it then ends what it started.
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
