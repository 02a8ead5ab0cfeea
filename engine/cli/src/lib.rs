//! The program `holdfast`: commands, the main loop, and all input and output.
//!
//! Files, sockets, processes and the clock are used in this crate and in no other crate of the engine. It makes no
//! decision about served configuration.

pub mod admin;
pub mod arguments;
pub mod bootstrap;
pub mod certgen;
pub mod check;
pub mod cli;
pub mod data;
pub mod demo;
mod descriptors;
pub mod drain;
pub mod echo;
pub mod envoy;
pub mod events;
pub mod failure;
pub mod gates;
pub mod kubernetes;
pub mod log;
pub mod manifests;
pub mod offline;
pub mod output;
mod printable;
pub mod probe;
pub mod rate_limits;
pub mod serve;
pub mod shared;
pub mod status;
pub mod store;
pub mod translate;
pub mod xds;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use self::bootstrap::Bootstrap;
use self::cli::{Cli, Command};
use self::failure::Failure;
use self::manifests::Root;
use self::xds::credentials::{Credentials, Printed};

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
    let outcome = match cli.command {
        Command::Run(args) => serve::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Bootstrap(args) => bootstrap(args),
        Command::Certgen(args) => certgen::run(args),
        Command::Drain(args) => drain::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Probe(args) => probe::keeping::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Demo(args) => demo::run(&args),
        Command::Version => output::print(concat!("holdfast ", env!("CARGO_PKG_VERSION"), "\n")),
        Command::Check(args) => check::run(args),
        Command::Translate(args) => translate::run(args),
        Command::Status(args) => status::run(&args),
        Command::Store(command) => store::run(command),
    };
    outcome.unwrap_or_else(|failure| {
        let message = failure.to_string();
        eprintln!("error: {}", printable::printable(&message, |character| character == '\n'));
        failure.exit_code()
    })
}

fn bootstrap(args: cli::BootstrapArgs) -> Result<ExitCode, Failure> {
    let printed = args.credentials.print;
    let bootstrap = Bootstrap::named(args)?;
    let value = match (printed, &bootstrap.credentials) {
        (Printed::SdsCertificate, Some(credentials)) => Credentials::sds_certificate(&credentials.folder),
        (Printed::SdsAuthorities, Some(credentials)) => Credentials::sds_authorities(&credentials.folder),
        (Printed::SdsToken, Some(Credentials { token: Some(token), .. })) => Credentials::sds_token(token),
        _ => bootstrap.to_json(),
    };
    output::print(&output::format(&value, cli::DataFormat::Yaml)?)
}

/// The roots that a flag names; each must exist.
fn manifest_roots(flag: &str, paths: &[PathBuf]) -> Result<Vec<Root>, Failure> {
    let root = |path: &PathBuf| match std::fs::metadata(path) {
        Ok(_) => Ok(Root { path: path.clone() }),
        Err(error) => Err(Failure::usage(format!("{flag} {}: {error}", path.display()))),
    };
    paths.iter().map(root).collect()
}
