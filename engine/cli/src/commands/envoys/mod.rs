//! `holdfast envoys`: the Envoys of a running Holdfast, each with its state.

mod text;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use super::status::Diagnostics;
use super::status::client;
use crate::admin::EnvoyRow;
use crate::arguments::GatewayName;
use crate::cli::{DataFormat, TableFormat};
use crate::failure::Failure;
use crate::output;

/// The page of Envoys.
const PAGE: &str = "/debug/envoys";

/// `holdfast envoys`.
#[derive(Debug, Args)]
pub struct EnvoysArgs {
    /// Address of diagnostics of a running Holdfast (`--diagnostics-listen`): HOST:PORT, or http://HOST:PORT
    #[arg(long, env = "CONTROLLER_DIAGNOSTICS", value_name = "ADDR", default_value = "127.0.0.1:10256")]
    pub diagnostics: Diagnostics,
    /// Show only the Envoys of this Gateway
    #[arg(long, env = "CONTROLLER_GATEWAY", value_name = "NAMESPACE/NAME")]
    pub gateway: Option<GatewayName>,
    /// Form of the output
    #[arg(long, short, env = "CONTROLLER_OUTPUT", value_enum, default_value_t = TableFormat::Text)]
    pub output: TableFormat,
}

/// The page.
#[derive(Debug, Deserialize)]
struct EnvoysPage {
    connected: Vec<EnvoyRow>,
    lost: Vec<LostRow>,
    managed: Vec<ManagedRow>,
}

/// An Envoy with a connection that was closed because the Envoy did not answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LostRow {
    fleet: Arc<str>,
    node: Arc<str>,
    build: Arc<str>,
    silent_seconds: u64,
}

/// A managed Envoy.
#[derive(Debug, Deserialize)]
struct ManagedRow {
    gateway: Arc<str>,
    state: String,
    pid: Option<u32>,
    version: String,
    restarts: u32,
}

/// The path of the page with its query.
fn path(args: &EnvoysArgs) -> String {
    match &args.gateway {
        Some(GatewayName(gateway)) => {
            form_urlencoded::Serializer::new(format!("{PAGE}?")).append_pair("gateway", gateway).finish()
        }
        None => PAGE.to_owned(),
    }
}

/// Prints the Envoys. The exit code is 0 if there is one, and all have acknowledged everything; else 1.
///
/// # Errors
/// Returns an error if Holdfast cannot be reached, or does not serve the Gateway.
pub fn run(args: &EnvoysArgs) -> Result<ExitCode, Failure> {
    let undetermined = |error: &anyhow::Error| client::undetermined(&args.diagnostics, PAGE, error);
    let body = client::query(&args.diagnostics, PAGE, &path(args))?;
    let document: Value =
        serde_json::from_slice(&body).context("its answer is not valid").map_err(|error| undetermined(&error))?;
    let page =
        EnvoysPage::deserialize(&document).context("its answer is not valid").map_err(|error| undetermined(&error))?;
    let text = match args.output {
        TableFormat::Text => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            text::format(&page, i64::try_from(now).unwrap_or(i64::MAX))
        }
        TableFormat::Json => output::format(&document, DataFormat::Json)?,
    };
    output::print(&text)?;
    let all_in_step = !page.connected.is_empty() && page.connected.iter().all(EnvoyRow::is_in_step);
    Ok(if all_in_step && page.lost.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
