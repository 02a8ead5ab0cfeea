//! `holdfast config`: the configuration that a running Holdfast has published, with the objects beside each entry.

mod text;

use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use holdfast_envoy::listing::ConfigPart;
use serde::Deserialize;
use serde_json::Value;

use self::text::ConfigPage;
use super::status::Diagnostics;
use super::status::client;
use crate::arguments::GatewayName;
use crate::cli::{DataFormat, TableFormat};
use crate::failure::Failure;
use crate::output;

/// The page of entries.
const PAGE: &str = "/debug/config/entries";

/// `holdfast config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Address of diagnostics of a running Holdfast (`--diagnostics-listen`): HOST:PORT, or http://HOST:PORT
    #[arg(long, env = "CONTROLLER_DIAGNOSTICS", value_name = "ADDR", default_value = "127.0.0.1:10256")]
    pub diagnostics: Diagnostics,
    /// Show only the configuration of this Gateway
    #[arg(long, env = "CONTROLLER_GATEWAY", value_name = "NAMESPACE/NAME")]
    pub gateway: Option<GatewayName>,
    /// Show only the routes of the virtual host that Envoy selects for this host
    #[arg(long, env = "CONTROLLER_HOST", value_name = "HOST")]
    pub host: Option<String>,
    /// Show the state of each resource at the connected Envoy with this node ID
    #[arg(long, visible_alias = "envoy", env = "CONTROLLER_NODE", value_name = "NODE")]
    pub node: Option<String>,
    /// Form of the output
    #[arg(long, short, env = "CONTROLLER_OUTPUT", value_enum, default_value_t = TableFormat::Text)]
    pub output: TableFormat,
    /// The part of the configuration
    #[arg(value_name = "PART", value_parser = PossibleValuesParser::new(ConfigPart::ALL.map(ConfigPart::name)))]
    pub part: String,
}

/// Prints the entries. The exit code is 0.
///
/// # Errors
/// Returns an error if Holdfast cannot be reached, or the Gateway or Envoy is unknown.
pub fn run(args: &ConfigArgs) -> Result<ExitCode, Failure> {
    let body = client::query(&args.diagnostics, PAGE, &path(args))?;
    let invalid = |error: serde_json::Error| {
        let error = anyhow::Error::new(error).context("its answer is not valid");
        client::undetermined(&args.diagnostics, PAGE, &error)
    };
    let document: Value = serde_json::from_slice(&body).map_err(invalid)?;
    let text = match args.output {
        TableFormat::Text => {
            let page = ConfigPage::deserialize(&document).map_err(invalid)?;
            text::format(&page, args.node.as_deref(), args.host.as_deref())
        }
        TableFormat::Json => output::format(&document, DataFormat::Json)?,
    };
    output::print(&text)
}

/// The path of the page with its query.
fn path(args: &ConfigArgs) -> String {
    let mut query = form_urlencoded::Serializer::new(format!("{PAGE}?"));
    query.append_pair("part", &args.part);
    let gateway = args.gateway.as_ref().map(|gateway| &gateway.0);
    for (name, value) in [("gateway", gateway), ("host", args.host.as_ref()), ("envoy", args.node.as_ref())] {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    query.finish()
}
