//! `holdfast status`: asks a running Holdfast what is broken, since when, why, what is served instead, and who else is
//! affected. It changes nothing, and decides nothing: it prints what the page says.

mod ask;
mod text;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;

use self::text::Style;
use super::failure::Failure;
use super::output;
use super::store::inspect::TableFormat;
use crate::fallback::view::{FallbackReport, ServedState, Status};

/// The page that is asked.
const PAGE: &str = "/debug/config/fallback";

/// `holdfast status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Where diagnostics are served (`--diagnostics-listen` of `holdfast run`): HOST:PORT, or http://HOST:PORT
    #[arg(long, env = "CONTROLLER_DIAGNOSTICS", value_name = "ADDR", default_value = "127.0.0.1:10256")]
    pub diagnostics: Diagnostics,
    /// Form of the output
    #[arg(long, short, env = "CONTROLLER_OUTPUT", value_enum, default_value_t = TableFormat::Text)]
    pub output: TableFormat,
}

/// Host and port of diagnostics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics(String);

impl FromStr for Diagnostics {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let (host, port) = address.rsplit_once(':').unwrap_or_default();
        let plain = |host: &str| !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ']);
        if plain(host) && port.parse::<u16>().is_ok_and(|port| port != 0) {
            Ok(Self(address.to_owned()))
        } else {
            Err("not HOST:PORT, as in 127.0.0.1:10256 or http://localhost:10256".into())
        }
    }
}

/// Asks, and prints the answer. Exit code 0 where everything is served as it is desired, 1 where something is not.
///
/// # Errors
/// Where nobody can be asked.
pub fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let address = &args.diagnostics.0;
    let asked = |error: anyhow::Error| {
        let hint = "is Holdfast running, and is this its --diagnostics-listen? --diagnostics names another address";
        Failure::usage(format!("cannot ask http://{address}{PAGE}: {error:#}; {hint}"))
    };
    let body = runtime.block_on(ask::get(address, PAGE)).map_err(asked)?;
    let report: FallbackReport =
        serde_json::from_slice(&body).context("it says something that is not understood").map_err(asked)?;
    let text = match args.output {
        TableFormat::Text => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let coloured =
                std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
            let style = if coloured { Style::Coloured } else { Style::Plain };
            text::format(&report, i64::try_from(now).unwrap_or(i64::MAX), style)
        }
        TableFormat::Json => {
            let mut text = serde_json::to_string_pretty(&report).context("cannot write JSON")?;
            text.push('\n');
            text
        }
    };
    let printed = output::print(&text)?;
    Ok(if is_current(&report) { printed } else { ExitCode::from(1) })
}

/// Is everything served as it is desired, to every Envoy?
fn is_current(report: &FallbackReport) -> bool {
    let served = report.gateways.iter().all(|gateway| {
        matches!(gateway.state, ServedState::Current | ServedState::Trying | ServedState::Probing)
            && gateway.envoys.refused == 0
    });
    report.status == Status::NotTriggered && served
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
