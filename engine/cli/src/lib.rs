//! The program `holdfast`: commands, the main loop, and all input and output.
//!
//! Files, sockets, processes and the clock are used in this crate and in no other crate of the engine. It makes no
//! decision about served configuration.

pub mod admin;
pub mod arguments;
pub mod bootstrap;
pub mod cli;
pub mod commands;
pub mod data;
mod descriptors;
pub mod envoy;
pub mod events;
pub mod failure;
pub mod kubernetes;
pub mod log;
pub mod manifests;
pub mod offline;
pub mod output;
mod printable;
pub mod probe;
pub mod serve;
pub mod settings;
pub mod shared;
pub mod store;
pub mod xds;

use std::process::ExitCode;

use clap::Parser;

use self::cli::Cli;

/// Runs the command of the command line.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // If the error cannot be printed, it cannot be reported at all.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    commands::run(cli.command).unwrap_or_else(|failure| {
        let message = failure.to_string();
        eprintln!("error: {}", printable::printable(&message, |character| character == '\n'));
        failure.exit_code()
    })
}
