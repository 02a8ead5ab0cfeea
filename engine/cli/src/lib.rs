//! The program `holdfast`: commands, the main loop, and all input and output.
//!
//! It makes no decision about served configuration.

pub mod admin;
mod allocator;
mod applied;
pub mod arguments;
pub mod cli;
pub mod commands;
pub mod data;
mod descriptors;
mod diff;
pub mod environment;
pub mod envoy;
pub mod events;
mod explain;
pub mod failure;
mod finding;
mod headings;
mod lines;
pub mod log;
mod log_tail;
pub mod manifests;
mod nearest;
pub mod offline;
pub mod output;
mod page;
mod plugin;
mod printable;
pub mod serve;
pub mod settings;
pub mod shared;
pub mod store;
pub mod webhook;
pub mod xds;

use std::process::ExitCode;

use clap::{Error, Parser};

use self::cli::Cli;
use self::environment::Environment;
use self::failure::Failure;
use self::plugin::PluginCommand;

/// Runs the command of the command line.
pub fn run() -> ExitCode {
    let environment = Environment::of_process();
    let run = match command(&environment) {
        Ok(run) => run,
        Err(error) => {
            // If the error cannot be printed, it cannot be reported at all.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    run().unwrap_or_else(|failure| {
        let mut message = failure.to_string();
        message.push_str(&environment.origin_lines(&message));
        eprintln!("error: {}", printable::printable(&message, |character| character == '\n'));
        failure.exit_code()
    })
}

/// A command with its arguments.
type ReadyCommand = Box<dyn FnOnce() -> Result<ExitCode, Failure>>;

/// The command of the command line, of the program or of the plugin of kubectl.
fn command(environment: &Environment) -> Result<ReadyCommand, Error> {
    if plugin::is_called(std::env::args_os().next().as_ref()) {
        let command = parsed(environment, PluginCommand::of_process())?;
        return Ok(Box::new(move || command.run()));
    }
    let cli = parsed(environment, Cli::try_parse())?;
    Ok(Box::new(move || commands::run(cli.command)))
}

/// Checks the environment of a parsed command line. Help is printed in every environment.
fn parsed<T>(environment: &Environment, parsed: Result<T, Error>) -> Result<T, Error> {
    if parsed.as_ref().is_err_and(|error| error.exit_code() == 0) {
        return parsed;
    }
    environment.unknown().map_or(Ok(()), Err)?;
    parsed.map_err(|error| environment.with_origins(error))
}
