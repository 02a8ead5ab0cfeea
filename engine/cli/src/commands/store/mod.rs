//! `holdfast store`: commands that inspect the store of last valid versions while no other process uses it.

pub mod inspect;
pub mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use holdfast_store::StoreError;
use holdfast_store::sled::{Survey, survey};

use crate::data::{self, DataDir};
use crate::failure::Failure;
use crate::store::key::StoreKeyArgs;
use crate::store::{FOLDER, absent};

/// `holdfast store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Show the contents of the store: scopes, versions of objects, verdicts; never the content of a Secret
    Inspect(inspect::InspectArgs),
    /// Read and verify the whole store
    #[command(long_about = "Read and verify the whole store.\n\nExit code 0: every record is valid. 1: a record is \
                      damaged. 2: there is no store, or a running Holdfast uses it.")]
    Verify(verify::VerifyArgs),
}

/// The store to inspect.
#[derive(Clone, Debug, Args)]
pub struct WhichStore {
    /// Data folder [default: $XDG_DATA_HOME/holdfast, else ~/.local/share/holdfast]
    #[arg(long, env = "CONTROLLER_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The key that seals stored Secrets.
    #[command(flatten)]
    pub key: StoreKeyArgs,
}

/// Runs a command about the store.
///
/// # Errors
/// Returns an error if there is no store, a running Holdfast uses it, or it cannot be read.
pub fn run(command: StoreCommand) -> Result<ExitCode, Failure> {
    match command {
        StoreCommand::Inspect(args) => inspect::run(&args),
        StoreCommand::Verify(args) => verify::run(&args),
    }
}

/// Reads a store that no other process uses.
fn look(which: &WhichStore) -> Result<(PathBuf, Survey), Failure> {
    let key = which.key.load()?;
    let path = match &which.data_dir {
        Some(path) => path.clone(),
        None => data::default_path()?,
    };
    let folder = path.join(FOLDER);
    if !folder.is_dir() {
        return Err(absent("--data-dir", &folder));
    }
    // Its lock is held until everything has been read.
    let held = DataDir::open(&path).map_err(|error| {
        let error = format!("{error:#}");
        match error.contains("another Holdfast") {
            true => Failure::usage(format!("{error}. For a running Holdfast, read its page /debug/store instead")),
            false => Failure::usage(error),
        }
    })?;
    let survey = survey(&held.path().join(FOLDER), key.as_ref()).map_err(|error| match error {
        StoreError::Absent(_) => absent("--data-dir", &folder),
        StoreError::InUse(folder) => Failure::usage(format!("{folder}: another process uses this store")),
        other => Failure::Runtime(other.into()),
    })?;
    Ok((folder, survey))
}

#[cfg(test)]
mod tests;
