//! `holdfast diff`: what is served instead of what was written, of a running Holdfast.

use std::process::ExitCode;

use clap::Args;

use super::status::Diagnostics;
use super::status::client::ReportPage;
use crate::cli::TableFormat;
use crate::diff::{DiffOutcome, DiffTarget};
use crate::failure::Failure;
use crate::output;

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

/// Prints the differences. The exit code is 0 if there are none, else 1.
///
/// # Errors
/// Returns an error if Holdfast cannot be reached, or has not read the object.
pub fn run(args: &DiffArgs) -> Result<ExitCode, Failure> {
    let (page, outcome) = ReportPage::request(&args.diagnostics, PAGE, &path(args))?;
    output::print(&page.printed(args.output)?)?;
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
