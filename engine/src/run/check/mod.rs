//! `holdfast check`: what is wrong with manifests, and what would be served, without serving it.
//!
//! A finding is anything that would not be served as written. One report, in three forms: [`text`] for people, JSON for
//! programs, [`sarif`] for code scanning.

mod report;
mod sarif;
mod text;

use std::process::ExitCode;

use self::report::Report;
use super::cli::{CheckArgs, DataFormat, ReportFormat};
use super::failure::Failure;
use super::{offline, output};

/// Prints the report. Exit code 1 where there are findings.
///
/// # Errors
/// Where there is nothing to check.
pub fn run(args: CheckArgs) -> Result<ExitCode, Failure> {
    let report = Report::new(&offline::translate(&args.paths, args.translation.settings()?)?);
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
