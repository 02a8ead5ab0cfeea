//! `holdfast collect`: an archive of the diagnostics of a running Holdfast for a bug report, without credentials.

mod archive;
mod scrub;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use self::archive::Archive;
use super::status::Diagnostics;
use super::status::client;
use crate::failure::Failure;
use crate::output;
use crate::printable::plain;

/// The pages of diagnostics, each with its name in the archive.
const PAGES: [(&str, &str); 15] = [
    ("/debug/health", "health.json"),
    ("/debug/config/fallback", "config-fallback.json"),
    ("/debug/config/successful", "config-successful.json"),
    ("/debug/config/failed", "config-failed.json"),
    ("/debug/config/raw-error", "config-raw-error.json"),
    ("/debug/diff", "diff.json"),
    ("/debug/plan", "plan.json"),
    ("/debug/store", "store.json"),
    ("/debug/policies", "policies.json"),
    ("/debug/graph", "graph.json"),
    ("/debug/faults", "faults.json"),
    ("/debug/statuses", "statuses.json"),
    ("/debug/envoys", "envoys.json"),
    ("/debug/process", "process.json"),
    ("/debug/log", "log.txt"),
];
/// The page of metrics.
const METRICS: (&str, &str) = ("/metrics", "metrics.txt");

/// `holdfast collect`.
#[derive(Debug, Args)]
pub struct CollectArgs {
    /// Address of diagnostics of a running Holdfast (`--diagnostics-listen`): HOST:PORT, or http://HOST:PORT
    #[arg(long, env = "CONTROLLER_DIAGNOSTICS", value_name = "ADDR", default_value = "127.0.0.1:10256")]
    pub diagnostics: Diagnostics,
    /// Address of its metrics (`--metrics-listen`)
    #[arg(long, env = "CONTROLLER_METRICS", value_name = "ADDR", default_value = "127.0.0.1:10255")]
    pub metrics: Diagnostics,
    /// The archive to write; a file that exists is not replaced
    #[arg(long, env = "CONTROLLER_FILE", value_name = "FILE", default_value = "holdfast-collect.tar.gz")]
    pub file: PathBuf,
}

/// Writes the archive.
///
/// # Errors
/// Returns an error if Holdfast cannot be reached, the archive cannot be written, or the removal of credentials fails its
/// own test.
pub fn run(args: &CollectArgs) -> Result<ExitCode, Failure> {
    scrub::test().map_err(Failure::usage)?;
    if args.file.exists() {
        return Err(Failure::usage(format!("--file {}: the file exists", args.file.display())));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let archive = runtime.block_on(collect(args))?;
    archive.write(&args.file).with_context(|| format!("cannot write {}", args.file.display()))?;
    output::print(&summary(&args.file, &archive))
}

async fn collect(args: &CollectArgs) -> Result<Archive, Failure> {
    let mut archive = Archive::default();
    archive.add("version.txt", concat!("holdfast ", env!("CARGO_PKG_VERSION"), "\n"));
    for (page, name) in PAGES {
        match client::get(&args.diagnostics, page).await {
            Ok(body) => archive.add(name, &scrub::scrubbed(name, &body)),
            // The first page: without it there is nothing to collect.
            Err(error) if archive.len() == 1 => return Err(client::undetermined(&args.diagnostics, page, &error)),
            Err(error) => archive.missing(name, &format!("{error:#}")),
        }
    }
    let (page, name) = METRICS;
    match client::get(&args.metrics, page).await {
        Ok(body) => archive.add(name, &scrub::scrubbed(name, &body)),
        Err(error) => archive.missing(name, &format!("{error:#}")),
    }
    Ok(archive)
}

fn summary(file: &Path, archive: &Archive) -> String {
    let mut text = format!("{}: {} files\n", plain(&file.display().to_string()), archive.len());
    for (name, why) in archive.not_collected() {
        text.push_str(&format!("  without {name}: {}\n", plain(why)));
    }
    text.push_str("Credentials are removed as far as they are recognized. Read the archive before you publish it.\n");
    text
}
