//! `holdfast explain`: what happens to one request and why, from the resources that would be published.
//!
//! The evaluation is in `holdfast_envoy::explain`; this command selects the Gateway, adds the reason of a replacement,
//! and prints the result.

mod report;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use holdfast_envoy::explain::request::ExplainRequest;

use self::report::{ExplainReport, RequestOutcome};
use crate::arguments::GatewayName;
use crate::cli::{DataFormat, TableFormat};
use crate::failure::Failure;
use crate::printable::plain;
use crate::settings::TranslationArgs;
use crate::{offline, output};

/// `holdfast explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Folders or files of manifests; - is standard input. May be repeated
    #[arg(long, env = "CONTROLLER_MANIFESTS", value_name = "PATH", required = true)]
    pub manifests: Vec<PathBuf>,
    /// Header of the request; may be repeated. `Host` replaces the host of the URL
    #[arg(long, short = 'H', env = "CONTROLLER_HEADER", value_name = "NAME: VALUE", value_parser = header)]
    pub header: Vec<(String, String)>,
    /// The Gateway that receives the request, if several have a listener at the port
    #[arg(long, env = "CONTROLLER_GATEWAY", value_name = "NAMESPACE/NAME")]
    pub gateway: Option<GatewayName>,
    /// Form of the output
    #[arg(long, short, env = "CONTROLLER_OUTPUT", value_enum, default_value_t = TableFormat::Text)]
    pub output: TableFormat,
    /// Method of the request
    #[arg(value_name = "METHOD")]
    pub method: String,
    /// URL of the request: http://HOST[:PORT]/PATH, or https
    #[arg(value_name = "URL")]
    pub url: String,
    /// Settings of the translation.
    #[command(flatten)]
    pub translation: TranslationArgs,
}

/// Prints the way of the request. The exit code is 0 if the request is served as desired, 1 if it is not, 3 if that
/// depends on a condition that cannot be evaluated.
///
/// # Errors
/// Returns an error if the request, the manifests or the Gateway cannot be used.
pub fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let request = ExplainRequest::read(&args.method, &args.url, &args.header).map_err(Failure::Usage)?;
    let offline = offline::translate(&args.manifests, args.translation.settings()?)?;
    for problem in &offline.reading.problems {
        eprintln!("{}", plain(&problem.to_string()));
    }
    let wanted = args.gateway.as_ref().map(|gateway| gateway.0.as_str());
    let report = ExplainReport::new(&offline.engine, &offline.actions, request, &args.url, wanted)?;
    let text = match args.output {
        TableFormat::Text => text::format(&report),
        TableFormat::Json => {
            let value = serde_json::to_value(&report).map_err(anyhow::Error::from)?;
            output::format(&value, DataFormat::Json)?
        }
    };
    output::print(&text)?;
    Ok(match report.outcome {
        RequestOutcome::Served => ExitCode::SUCCESS,
        RequestOutcome::NotServed => ExitCode::from(1),
        RequestOutcome::Unknown => ExitCode::from(3),
    })
}

/// Reads `name: value`.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME: VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
