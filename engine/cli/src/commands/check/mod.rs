//! `holdfast check`: faults of manifests and what would be served, without serving.
//!
//! A finding is anything that would not be served as written. The report has three forms: [`text`] for people, JSON for
//! programs, [`sarif`] for code scanning. [`against`] adds what would be served instead, given a store.

mod against;
mod instead;
mod lines;
mod meant;
mod report;
mod sarif;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use self::against::{Against, Baseline};
use self::report::Report;
use crate::cli::{DataFormat, ReportFormat};
use crate::failure::Failure;
use crate::settings::TranslationArgs;
use crate::store::key::StoreKeyArgs;
use crate::{offline, output};

/// `holdfast check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Folders and files of manifests; - is standard input
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Form of the report
    #[arg(long, short, env = "CONTROLLER_OUTPUT", value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
    /// Data folder of a Holdfast: report also what would be served instead of broken objects, given its store. The
    /// folder is only read, and may be in use
    #[arg(long, env = "CONTROLLER_AGAINST", value_name = "DATA_DIR")]
    pub against: Option<PathBuf>,
    /// The key that seals stored Secrets.
    #[command(flatten)]
    pub store_key: StoreKeyArgs,
    /// Settings of the translation.
    #[command(flatten)]
    pub translation: TranslationArgs,
}

/// Prints the report. The exit code is 1 if there are findings.
///
/// # Errors
/// Returns an error if a path or the store cannot be used.
pub fn run(args: CheckArgs) -> Result<ExitCode, Failure> {
    let report = report(&args)?;
    let text = match args.output {
        ReportFormat::Text => text::format(&report),
        ReportFormat::Json => {
            let value = serde_json::to_value(&report).map_err(anyhow::Error::from)?;
            output::format(&value, DataFormat::Json)?
        }
        ReportFormat::Sarif => output::format(&sarif::format(&report), DataFormat::Json)?,
    };
    output::print(&text)?;
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The report.
fn report(args: &CheckArgs) -> Result<Report, Failure> {
    let settings = args.translation.settings()?;
    let Some(data) = &args.against else { return Ok(Report::new(&offline::translate(&args.paths, settings)?, None)) };
    let (before, incarnations, events) = Baseline::read(data, args.store_key.load()?)?;
    let offline = offline::translate_after(&args.paths, settings, incarnations, events)?;
    let against = Against::new(before, &offline.engine);
    Ok(Report::new(&offline, Some(against)))
}

#[cfg(test)]
mod tests;
