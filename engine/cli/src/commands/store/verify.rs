//! `holdfast store verify`: reads the whole store, and reports damage.

use std::process::ExitCode;

use clap::Args;

use super::WhichStore;
use crate::failure::Failure;
use crate::output;

/// `holdfast store verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The store.
    #[command(flatten)]
    pub which: WhichStore,
}

/// Verifies the store; the exit code is 0 if all records are sound, 1 if some are damaged.
///
/// # Errors
/// Returns an error if there is no store, or a running Holdfast uses it.
pub fn run(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let (folder, survey) = super::look(&args.which)?;
    let folder = folder.display();
    for line in &survey.damage {
        output::print(&format!("{folder}: {line}\n"))?;
    }
    let (records, generation) = (survey.records, survey.statistics.generation);
    let sealed = match survey.statistics.unreadable {
        0 => String::new(),
        count => format!("; {count} records are sealed and cannot be read without their key (--store-key-file)"),
    };
    if !survey.damage.is_empty() {
        output::print(&format!("{folder}: damaged; {records} records of generation {generation} are valid{sealed}\n"))?;
        return Ok(ExitCode::from(1));
    }
    output::print(&format!("{folder}: valid; generation {generation}, {records} records{sealed}\n"))
}
