//! The program `holdfast`: commands, the main loop, and all input and output.
//!
//! Files, sockets, processes and the clock are used in this crate and in no other crate of the engine. It makes no
//! decision about served configuration.

pub mod admin;
mod applied;
pub mod arguments;
pub mod bootstrap;
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
pub mod kubernetes;
pub mod log;
mod log_tail;
pub mod manifests;
mod nearest;
pub mod offline;
pub mod output;
mod page;
mod printable;
pub mod probe;
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

/// Runs the command of the command line.
pub fn run() -> ExitCode {
    let environment = Environment::of_process();
    let cli = match parsed(&environment) {
        Ok(cli) => cli,
        Err(error) => {
            // If the error cannot be printed, it cannot be reported at all.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    commands::run(cli.command).unwrap_or_else(|failure| {
        let mut message = failure.to_string();
        message.push_str(&environment.origin_lines(&message));
        eprintln!("error: {}", printable::printable(&message, |character| character == '\n'));
        failure.exit_code()
    })
}

/// Parses the command line. Help is printed in every environment.
fn parsed(environment: &Environment) -> Result<Cli, Error> {
    let parsed = Cli::try_parse();
    if parsed.as_ref().is_err_and(|error| error.exit_code() == 0) {
        return parsed;
    }
    environment.unknown().map_or(Ok(()), Err)?;
    parsed.map_err(|error| environment.with_origins(error))
}
