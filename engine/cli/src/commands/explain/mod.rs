//! `holdfast explain`: what happens to one request and why, from the resources that a running Holdfast has published, or
//! that would be published from manifests.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use holdfast_engine::health::quoted;
use holdfast_envoy::explain::request::ExplainRequest;
use serde_json::Value;

use super::status::Diagnostics;
use super::status::client::ReportPage;
use crate::arguments::GatewayName;
use crate::cli::{DataFormat, TableFormat};
use crate::explain::{self, ExplainFacts, ExplainReport, ExplainedManifests, RequestOutcome};
use crate::failure::Failure;
use crate::offline::{self, Offline};
use crate::output;
use crate::printable::plain;
use crate::settings::TranslationArgs;

/// The page of explanations.
const PAGE: &str = "/debug/explain";

/// `holdfast explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Address of diagnostics of a running Holdfast (`--diagnostics-listen`): HOST:PORT, or http://HOST:PORT. Not used
    /// with `--manifests`
    #[arg(long, env = "CONTROLLER_DIAGNOSTICS", value_name = "ADDR", default_value = "127.0.0.1:10256")]
    pub diagnostics: Diagnostics,
    /// Folders or files of manifests to explain without a running Holdfast; - is standard input. May be repeated
    #[arg(long, env = "CONTROLLER_MANIFESTS", value_name = "PATH")]
    pub manifests: Vec<PathBuf>,
    /// Header of the request; may be repeated. `Host` replaces the host of the URL
    #[arg(long, short = 'H', env = "CONTROLLER_HEADER", value_name = "NAME: VALUE", value_parser = explain::header)]
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
    /// Settings of the translation of manifests.
    #[command(flatten)]
    pub translation: TranslationArgs,
}

/// An explanation, and its printed form.
struct Explained {
    outcome: RequestOutcome,
    text: String,
}

/// Prints the way of the request. The exit code is 0 if the request is served as desired, 1 if it is not, 3 if that is
/// not known.
///
/// # Errors
/// Returns an error if the request, the manifests or the Gateway cannot be used, or Holdfast cannot be reached.
pub fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let request = ExplainRequest::read(&args.method, &args.url, &args.header).map_err(Failure::Usage)?;
    let Explained { outcome, text } =
        if args.manifests.is_empty() { of_running(args)? } else { of_manifests(args, request)? };
    output::print(&text)?;
    Ok(match outcome {
        RequestOutcome::Served => ExitCode::SUCCESS,
        RequestOutcome::NotServed => ExitCode::from(1),
        RequestOutcome::Unknown => ExitCode::from(3),
    })
}

fn of_manifests(args: &ExplainArgs, request: ExplainRequest) -> Result<Explained, Failure> {
    let offline = offline::translate(&args.manifests, args.translation.settings()?)?;
    for problem in &offline.reading.problems {
        eprintln!("{}", plain(&problem.to_string()));
    }
    for unserved in &offline.reading.unserved {
        eprintln!("{}", plain(&unserved.to_string()));
    }
    let wanted = args.gateway.as_ref().map(|gateway| gateway.0.as_str());
    let facts = ExplainFacts::of_manifests(&offline.engine, &offline.actions, manifests(&offline, &args.manifests));
    let report = ExplainReport::new(&facts, request, &args.url, wanted)?;
    let text = match args.output {
        TableFormat::Text => explain::format(&report),
        TableFormat::Json => json(&serde_json::to_value(&report).map_err(anyhow::Error::from)?)?,
    };
    Ok(Explained { outcome: report.outcome, text })
}

/// Returns the positions of the objects of manifests, and the command that checks the manifests.
fn manifests(offline: &Offline, paths: &[PathBuf]) -> ExplainedManifests {
    let places = offline.reading.places.iter().filter_map(|(key, place)| Some((key.clone(), place.clone()?)));
    let paths: Vec<String> = paths.iter().map(|path| quoted(&path.to_string_lossy())).collect();
    ExplainedManifests { places: places.collect(), check: format!("holdfast check {}", paths.join(" ")) }
}

/// Requests the explanation of a running Holdfast.
fn of_running(args: &ExplainArgs) -> Result<Explained, Failure> {
    let (page, outcome) = ReportPage::request(&args.diagnostics, PAGE, &path(args))?;
    Ok(Explained { outcome, text: page.printed(args.output)? })
}

/// The path of the page, with the request as its query.
fn path(args: &ExplainArgs) -> String {
    let mut query = form_urlencoded::Serializer::new(format!("{PAGE}?"));
    query.append_pair("method", &args.method).append_pair("url", &args.url);
    for (name, value) in &args.header {
        query.append_pair("header", &format!("{name}: {value}"));
    }
    if let Some(gateway) = &args.gateway {
        query.append_pair("gateway", &gateway.0);
    }
    query.finish()
}

fn json(report: &Value) -> Result<String, Failure> {
    Ok(output::format(report, DataFormat::Json)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod policies_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
