//! `holdfast check`: faults of manifests and what would be served, without serving.
//!
//! A finding is anything that would not be served as written. The report has three forms: [`text`] for people, JSON for
//! programs, [`sarif`] for code scanning. [`against`] adds what would be served instead, given a store.

mod against;
mod instead;
mod lines;
mod report;
mod sarif;
mod text;

use std::process::ExitCode;

use self::against::{Against, Before};
use self::report::Report;
use super::cli::{CheckArgs, DataFormat, ReportFormat};
use super::failure::Failure;
use super::{offline, output};

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
    let (before, incarnations, events) = Before::read(data, args.store_key.load()?)?;
    let offline = offline::translate_after(&args.paths, settings, incarnations, events)?;
    let against = Against::new(before, &offline.engine);
    Ok(Report::new(&offline, Some(against)))
}

#[cfg(test)]
mod tests;
