//! `holdfast check`: what is wrong with manifests, and what would be served, without serving it.
//!
//! A finding is anything that would not be served as written. One report, in three forms: [`text`] for people, JSON for
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

/// Prints the report. Exit code 1 where there are findings.
///
/// # Errors
/// Where there is nothing to check, or nothing to check it against.
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

/// What there is to tell.
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
