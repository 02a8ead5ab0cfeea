//! The program `cargo dist`: makes the artefacts of a release in one folder.

use std::process::ExitCode;

use clap::Parser;
use holdfast_dist::DistArgs;

fn main() -> ExitCode {
    match holdfast_dist::run(&DistArgs::parse()) {
        Ok(made) => {
            println!("{}", made.report());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
