//! The last valid store as the program uses it: its key, the thread that writes it, and the commands that look into it.
//!
//! What is stored, and what stored things are good for, is decided elsewhere.

pub mod copy;
pub mod inspect;
pub mod key;
pub mod past;
pub mod persist;
pub mod restore;
pub mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use holdfast_store::StoreError;
use holdfast_store::sled::{Survey, survey};

use self::key::StoreKeyArgs;
use super::data::{self, DataDir};
use super::failure::Failure;

/// The store's folder in the data folder.
pub const FOLDER: &str = "store";

/// `holdfast store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Show what is stored: scopes, versions of objects, verdicts; never the content of a Secret
    Inspect(inspect::InspectArgs),
    /// Read and verify everything that is stored
    #[command(
        long_about = "Read and verify everything that is stored.\n\nExit code 0 where all is sound, 1 where something is \
                      damaged, 2 where there is no store or a running Holdfast uses it."
    )]
    Verify(verify::VerifyArgs),
}

/// Which store is looked into.
#[derive(Clone, Debug, Args)]
pub struct WhichStore {
    /// The data folder [default: $XDG_DATA_HOME/holdfast, else ~/.local/share/holdfast]
    #[arg(long, env = "CONTROLLER_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The key that Secrets are sealed with.
    #[command(flatten)]
    pub key: StoreKeyArgs,
}

/// Does what is asked of the store.
///
/// # Errors
/// Where there is no store, a running Holdfast uses it, or it cannot be looked into.
pub fn run(command: StoreCommand) -> Result<ExitCode, Failure> {
    match command {
        StoreCommand::Inspect(args) => inspect::run(&args),
        StoreCommand::Verify(args) => verify::run(&args),
    }
}

/// Looks into a store that nobody uses.
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
    // Its lock is held until all has been read.
    let held = DataDir::open(&path).map_err(|error| {
        let error = format!("{error:#}");
        match error.contains("another Holdfast") {
            true => Failure::usage(format!("{error}. Of one that runs, ask its page /debug/store instead")),
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

fn absent(flag: &str, folder: &Path) -> Failure {
    Failure::usage(format!("{flag}: there is no store at {}", folder.display()))
}

/// Whose store a store of standalone mode is.
pub fn identity() -> Arc<str> {
    format!("standalone {}", crate::settings::CONTROLLER_NAME).into()
}

#[cfg(test)]
mod tests;
