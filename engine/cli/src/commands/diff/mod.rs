//! `holdfast diff`: what is served instead of what was written, of a running Holdfast.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use super::status::Diagnostics;
use super::status::client::{self, DiagnosticsAnswer};
use crate::cli::{DataFormat, TableFormat};
use crate::diff::{DiffOutcome, DiffTarget};
use crate::failure::Failure;
use crate::output;
use crate::printable::printable;

/// The page of differences.
const PAGE: &str = "/debug/diff";

/// `holdfast diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Address of diagnostics of a running Holdfast (`--diagnostics-listen`): HOST:PORT, or http://HOST:PORT
    #[arg(long, env = "CONTROLLER_DIAGNOSTICS", value_name = "ADDR", default_value = "127.0.0.1:10256")]
    pub diagnostics: Diagnostics,
    /// Form of the output
    #[arg(long, short, env = "CONTROLLER_OUTPUT", value_enum, default_value_t = TableFormat::Text)]
    pub output: TableFormat,
    /// The object, as in HTTPRoute/shop/cart; without it, every object that is not served as written
    #[arg(value_name = "KIND/NAMESPACE/NAME", value_parser = target)]
    pub object: Option<String>,
}

fn target(text: &str) -> Result<String, String> {
    text.parse::<DiffTarget>().map(|target| target.to_string())
}

/// The page of a running Holdfast.
#[derive(Deserialize)]
struct DiffPage {
    report: Value,
    text: String,
}

/// Prints the differences. The exit code is 0 if there are none, else 1.
///
/// # Errors
/// Returns an error if Holdfast cannot be reached, or has not read the object.
pub fn run(args: &DiffArgs) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let undetermined = |error: &anyhow::Error| client::undetermined(&args.diagnostics, PAGE, error);
    let answer = runtime.block_on(client::fetch(&args.diagnostics, &path(args)));
    let body = match answer.map_err(|error| undetermined(&error))? {
        DiagnosticsAnswer::Ok(body) => body,
        DiagnosticsAnswer::BadRequest(why) => {
            return Err(Failure::usage(printable(why.trim_end(), |_| false).into_owned()));
        }
    };
    let page: DiffPage =
        serde_json::from_slice(&body).context("its answer is not valid").map_err(|error| undetermined(&error))?;
    let outcome = page.report.get("outcome").cloned().unwrap_or_default();
    let outcome =
        serde_json::from_value(outcome).context("its answer has no outcome").map_err(|error| undetermined(&error))?;
    let text = match args.output {
        TableFormat::Text => printable(&page.text, |character| character == '\n').into_owned(),
        TableFormat::Json => output::format(&page.report, DataFormat::Json)?,
    };
    output::print(&text)?;
    Ok(match outcome {
        DiffOutcome::Same => ExitCode::SUCCESS,
        DiffOutcome::Different => ExitCode::from(1),
    })
}

/// The path of the page, with the object as its query.
fn path(args: &DiffArgs) -> String {
    match &args.object {
        None => PAGE.to_owned(),
        Some(object) => form_urlencoded::Serializer::new(format!("{PAGE}?")).append_pair("object", object).finish(),
    }
}
