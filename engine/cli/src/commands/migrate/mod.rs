//! `holdfast migrate`: what a user of another gateway must know, and change, in manifests that were written for it.
//!
//! [`rules`] are tables of differences, a file for each part of a [`source`]. [`report`] applies them to the documents
//! that were read, at the [`places`] that they name, and adds what the translation refuses or ignores. Nothing is
//! written, and no manifest is converted.

mod adapt;
mod places;
mod report;
mod rules;
mod settings;
mod source;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use holdfast_api::settings::Settings;

use self::report::MigrationReport;
use self::source::MigrationSource;
use crate::cli::{DataFormat, TableFormat};
use crate::failure::Failure;
use crate::offline::{self, OfflineStart};
use crate::output;
use crate::settings::TranslationArgs;

/// `holdfast migrate`.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// The gateway that the manifests were written for
    #[arg(value_enum, value_name = "GATEWAY")]
    pub source: MigrationSource,
    /// Folders and files of manifests; - is standard input
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Form of the report
    #[arg(long, short, env = "CONTROLLER_OUTPUT", value_enum, default_value_t = TableFormat::Text)]
    pub output: TableFormat,
    /// Settings of the translation.
    #[command(flatten)]
    pub translation: TranslationArgs,
}

/// Prints the report. The exit code is 1 if something must be changed.
///
/// # Errors
/// Returns an error if a path cannot be used, or no path contains a manifest.
pub fn run(args: &MigrateArgs) -> Result<ExitCode, Failure> {
    let report = report(args)?;
    let text = match args.output {
        TableFormat::Text => text::format(&report),
        TableFormat::Json => {
            let value = serde_json::to_value(&report).map_err(anyhow::Error::from)?;
            output::format(&value, DataFormat::Json)?
        }
    };
    output::print(&text)?;
    Ok(ExitCode::from(u8::from(report.summary.to_change > 0)))
}

/// The report. The settings are those of a cluster, where each Gateway has Envoys of its own: such manifests come from
/// one.
fn report(args: &MigrateArgs) -> Result<MigrationReport, Failure> {
    let settings = Settings { listen_address: None, provision: true, ..args.translation.settings()? };
    let before = OfflineStart { edit: Some(adapt::classes), ..OfflineStart::default() };
    let offline = offline::translate_after(&args.paths, settings.clone(), before)?;
    Ok(MigrationReport::new(args.source, &offline, settings))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
