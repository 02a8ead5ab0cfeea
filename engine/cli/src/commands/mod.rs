//! Commands of the program: a file or folder for each of them, with its name on the command line.
//!
//! A command has its flags and its `run`. Code that several commands use is beside this folder.

pub mod bootstrap;
pub mod certgen;
pub mod check;
pub mod collect;
pub mod completion;
pub mod config;
pub mod demo;
pub mod diff;
pub mod drain;
pub mod envoys;
pub mod explain;
pub mod log_level;
pub mod man;
pub mod migrate;
pub mod probe;
pub mod run;
pub mod status;
pub mod store;
pub mod translate;
pub mod version;

use std::process::ExitCode;

use crate::cli::Command;
use crate::failure::Failure;

/// Runs a command.
///
/// # Errors
/// Returns the failure of the command.
pub fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(args) => run::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Check(args) => check::run(args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Translate(args) => translate::run(args),
        Command::Explain(args) => explain::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Envoys(args) => envoys::run(&args),
        Command::Config(args) => config::run(&args),
        Command::LogLevel(args) => log_level::run(&args),
        Command::Collect(args) => collect::run(&args),
        Command::Bootstrap(args) => bootstrap::run(args),
        Command::Certgen(args) => certgen::run(args),
        Command::Status(args) => status::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Drain(args) => drain::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Probe(args) => probe::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Store(command) => store::run(command),
        Command::Completion(args) => completion::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Version => version::run(),
    }
}
