//! `holdfast translate`: the resources of each Gateway, for people and for comparisons.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use holdfast_engine::engine::Action;
use serde_json::{Value, json};

use crate::admin::debug;
use crate::arguments::GatewayName;
use crate::cli::DataFormat;
use crate::failure::Failure;
use crate::printable::plain;
use crate::settings::TranslationArgs;
use crate::{offline, output};

/// `holdfast translate`.
#[derive(Debug, Args)]
pub struct TranslateArgs {
    /// Folders and files of manifests; - is standard input
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Form of the output
    #[arg(long, short, env = "CONTROLLER_OUTPUT", value_enum, default_value_t = DataFormat::Yaml)]
    pub output: DataFormat,
    /// Print only this Gateway
    #[arg(long, env = "CONTROLLER_GATEWAY", value_name = "NAMESPACE/NAME")]
    pub gateway: Option<GatewayName>,
    /// Settings of the translation.
    #[command(flatten)]
    pub translation: TranslationArgs,
}

/// Prints the resources of each Gateway, in a deterministic order. Problems are printed to standard error.
///
/// # Errors
/// Returns an error if there is nothing to translate, or the requested Gateway is not among the manifests.
pub fn run(args: TranslateArgs) -> Result<ExitCode, Failure> {
    let offline = offline::translate(&args.paths, args.translation.settings()?)?;
    for problem in &offline.reading.problems {
        eprintln!("{}", plain(&problem.to_string()));
    }
    for unserved in &offline.reading.unserved {
        eprintln!("{}", plain(&unserved.to_string()));
    }
    for fault in offline.engine.faults() {
        eprintln!("{}", plain(&fault.to_string()));
    }
    let mut gateways: Vec<(String, Value)> = offline
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Publish { gateway, offers } => {
                Some((gateway.to_string(), debug::resources(&offers.everyone, None)))
            }
            Action::Withdraw { .. } | Action::Try(_) | Action::Store(_) => None,
        })
        .map(|(gateway, resources)| (gateway.clone(), json!({ "name": gateway, "resources": resources })))
        .collect();
    gateways.sort_by(|(a, _), (b, _)| a.cmp(b));
    if let Some(wanted) = &args.gateway {
        gateways.retain(|(name, _)| *name == wanted.0);
        if gateways.is_empty() {
            return Err(Failure::usage(format!(
                "--gateway {}: no such Gateway is served from these manifests",
                wanted.0
            )));
        }
    }
    let gateways: Vec<Value> = gateways.into_iter().map(|(_, value)| value).collect();
    output::print(&output::format(&json!({ "gateways": gateways }), args.output)?)
}
