//! Measures Holdfast with a neutral xDS client: starts, edits, CPU and memory for several numbers of routes, each beside
//! what the machine needs without Holdfast. The objects are in a folder of manifests, and then edits through a real Envoy
//! are measured too, if one is available; or they are in a real API server. It uses loopback only.

mod answers;
mod api_server;
mod client;
mod edits;
mod figures;
mod file_envoy;
mod fixture;
mod floors;
mod isolation;
mod names;
mod objects;
mod percentiles;
mod report;
mod requests;
mod run;
mod start;
mod surroundings;
mod table;
mod through_envoy;
mod usage;
mod watched;
mod wire;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

use crate::report::{Input, Report, VirtualHosts};

/// Measures Holdfast with an xDS client and with an Envoy, or with an API server; HOLDFAST_BIN, ENVOY_BIN and
/// KUBEBUILDER_ASSETS name the programs, else they are built and looked for.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the figures of two files beside each other.
    Compare {
        /// The file that the other one is compared with.
        a: PathBuf,
        /// The other file.
        b: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Options {
    /// Numbers of routes; one route is always measured first, for memory.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_values_t = [1000, 10_000])]
    routes: Vec<usize>,
    /// Where Holdfast reads the objects.
    #[arg(long, value_enum, default_value_t)]
    input: Input,
    /// Number of measured edits; those without effect are half as many of each kind.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..))]
    edits: u16,
    /// The form in which virtual hosts are sent, to the client and to the Envoy.
    #[arg(long, value_enum, default_value_t)]
    virtual_hosts: VirtualHosts,
    /// File for the figures, in JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Date to write into the file.
    #[arg(long)]
    date: Option<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Compare { a, b }) => {
            print!("{}", table::of_two(&read(&a)?, &read(&b)?));
            Ok(())
        }
        None => measure(cli.options).await,
    }
}

async fn measure(options: Options) -> Result<()> {
    if options.input == Input::Kubernetes {
        api_server::check()?;
    }
    let edits = usize::from(options.edits);
    let mut report = Report {
        commit: surroundings::commit(),
        date: options.date,
        program: surroundings::program()?,
        machine: surroundings::machine()?,
        edits,
        input: options.input,
        virtual_hosts: options.virtual_hosts,
        runs: Vec::new(),
    };
    println!("{}", table::title(&report));
    let mut numbers = options.routes;
    numbers.retain(|routes| *routes > 1);
    numbers.insert(0, 1);
    for routes in numbers {
        let mut run = run::measure(options.input, routes, edits, options.virtual_hosts).await?;
        run.memory_per_route = report.runs.first().and_then(|base| run.memory_per_route(base));
        println!("\n{}", table::of_run(&run).trim_end());
        report.runs.push(run);
        // Written after each run, so that a failure loses only its own.
        if let Some(file) = &options.out {
            fs::write(file, serde_json::to_string_pretty(&report)? + "\n").with_context(|| shown(file))?;
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<Report> {
    let text = fs::read_to_string(file).with_context(|| shown(file))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a file of this program", shown(file)))
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}
