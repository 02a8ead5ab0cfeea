//! `holdfast check`: faults of manifests and what would be served, without serving.
//!
//! A finding is anything that would not be served as written. The report has four forms: [`text`] for people, JSON for
//! programs, [`sarif`] for code scanning, [`junit`] for CI servers. [`cluster`] adds the objects of a live cluster, [`against`]
//! adds what would be served instead, given a
//! store.

mod against;
mod cluster;
mod instead;
mod junit;
mod meant;
mod report;
mod sarif;
mod text;
mod xml;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use self::against::{Against, Baseline};
use self::cluster::ClusterArgs;
use self::report::{CheckSeverity, Report};
use crate::cli::{DataFormat, ReportFormat};
use crate::failure::Failure;
use crate::offline::{self, OfflineStart};
use crate::output;
use crate::settings::TranslationArgs;
use crate::store::key::StoreKeyArgs;

/// `holdfast check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Folders and files of manifests; - is standard input. May be left out with --kubeconfig
    #[arg(value_name = "PATH", required_unless_present = "kubeconfig")]
    pub paths: Vec<PathBuf>,
    /// Form of the report
    #[arg(long, short, env = "CONTROLLER_OUTPUT", value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
    /// Lowest severity of a finding with which the exit code is 1
    #[arg(long, env = "CONTROLLER_FAIL_ON", value_enum, default_value_t = CheckSeverity::Warning)]
    pub fail_on: CheckSeverity,
    /// In text form, print only the findings: nothing if there are none
    #[arg(long, short, env = "CONTROLLER_QUIET", value_name = "BOOL", default_value_t = false)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub quiet: bool,
    /// Data folder of a Holdfast: report also what would be served instead of broken objects, given its store. The
    /// folder is only read, and may be in use
    #[arg(long, env = "CONTROLLER_AGAINST", value_name = "DATA_DIR")]
    pub against: Option<PathBuf>,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The key that seals stored Secrets.
    #[command(flatten)]
    pub store_key: StoreKeyArgs,
    /// Settings of the translation.
    #[command(flatten)]
    pub translation: TranslationArgs,
}

/// Prints the report. The exit code is 1 if there are findings of the severity that fails the check.
///
/// # Errors
/// Returns an error if a path or the store cannot be used.
pub fn run(args: CheckArgs) -> Result<ExitCode, Failure> {
    let report = report(&args)?;
    let text = match args.output {
        ReportFormat::Text if args.quiet => text::format_findings(&report),
        ReportFormat::Text => text::format(&report),
        ReportFormat::Json => {
            let value = serde_json::to_value(&report).map_err(anyhow::Error::from)?;
            output::format(&value, DataFormat::Json)?
        }
        ReportFormat::Sarif => output::format(&sarif::format(&report), DataFormat::Json)?,
        ReportFormat::Junit => junit::format(&report, args.fail_on),
    };
    output::print(&text)?;
    Ok(ExitCode::from(u8::from(report.fails(args.fail_on))))
}

/// The report.
fn report(args: &CheckArgs) -> Result<Report, Failure> {
    let settings = args.cluster.settings(&args.translation)?;
    let (cluster, objects) = args.cluster.objects()?.unzip();
    let mut before = OfflineStart { cluster: objects, ..OfflineStart::default() };
    let mut baseline = None;
    if let Some(data) = &args.against {
        let (stored, incarnations, events) = Baseline::read(data, args.store_key.load()?)?;
        (before.incarnations, before.events) = (Some(incarnations), events);
        baseline = Some(stored);
    }
    let offline = offline::translate_after(&args.paths, settings, before)?;
    let against = baseline.map(|stored| Against::new(stored, &offline.engine));
    Ok(Report::new(&offline, cluster, against))
}

#[cfg(test)]
mod tests;
