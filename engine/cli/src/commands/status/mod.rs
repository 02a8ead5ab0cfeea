//! `holdfast status`: requests the health of a running Holdfast, and prints it. The command changes nothing, and makes
//! no decisions of its own.

pub(crate) mod client;
mod part;
mod text;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use holdfast_engine::health::{Health, HealthVerdict};
use serde_json::Value;

use self::part::SelectedPart;
pub(crate) use self::text::SHOWN;
use self::text::Style;
use crate::cli::TableFormat;
use crate::failure::Failure;
use crate::output;

/// The page of health.
const PAGE: &str = "/debug/health";
/// The page that JSON output includes.
const FALLBACK: &str = "/debug/config/fallback";
/// Interval of requests with `--watch`.
const WATCH_EVERY: Duration = Duration::from_secs(2);

/// `holdfast status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Address of diagnostics (`--diagnostics-listen` of `holdfast run`): HOST:PORT, or http://HOST:PORT
    #[arg(long, env = "CONTROLLER_DIAGNOSTICS", value_name = "ADDR", default_value = "127.0.0.1:10256")]
    pub diagnostics: Diagnostics,
    /// Form of the output
    #[arg(long, short, env = "CONTROLLER_OUTPUT", value_enum, default_value_t = TableFormat::Text)]
    pub output: TableFormat,
    /// Show only findings about the objects of this namespace, and the inputs
    #[arg(long, short, env = "CONTROLLER_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Show only findings about this Gateway, and the inputs
    #[arg(long, env = "CONTROLLER_GATEWAY", value_name = "NAMESPACE/NAME", value_parser = gateway)]
    pub gateway: Option<String>,
    /// Repeat the request every two seconds, and print changes, until interrupted
    #[arg(long, short, env = "CONTROLLER_WATCH")]
    pub watch: bool,
}

fn gateway(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => Ok(text.into()),
        _ => Err("not NAMESPACE/NAME, as in infra/public".into()),
    }
}

/// Host and port of diagnostics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics(String);

impl Diagnostics {
    /// A port of this host.
    pub(crate) fn of_this_host(port: u16) -> Self {
        Self(format!("127.0.0.1:{port}"))
    }
}

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

/// The result, and its printed form.
struct StatusOutput {
    verdict: HealthVerdict,
    text: String,
}

/// Requests the health, and prints it.
///
/// # Errors
/// Returns an error if the health cannot be determined.
pub fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    if args.watch {
        return runtime.block_on(watch(args));
    }
    let StatusOutput { verdict, text } = runtime.block_on(show(args))?;
    let printed = output::print(&text)?;
    Ok(if verdict == HealthVerdict::Healthy { printed } else { ExitCode::from(1) })
}

/// Prints changes until the command is interrupted or the reader is gone.
async fn watch(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let clear = std::io::stdout().is_terminal() && args.output == TableFormat::Text;
    let mut before = String::new();
    loop {
        let text = match show(args).await {
            Ok(StatusOutput { text, .. }) => text,
            Err(failure) => format!("{failure}\n"),
        };
        if clear {
            // Clears the screen and starts in the upper left corner.
            output::print(&format!("\u{1b}[H\u{1b}[2J{text}"))?;
        } else if without_ages(&text) != without_ages(&before) {
            let gap = if before.is_empty() { "" } else { "\n" };
            output::print(&format!("{gap}{text}"))?;
        }
        before = text;
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

/// The text without durations, for comparison: an increasing duration is no change.
fn without_ages(text: &str) -> String {
    let line = |line: &str| match line.split_once(" (") {
        Some((head, tail)) => match tail.split_once(" ago)") {
            Some((_, rest)) => format!("{head}{rest}"),
            None => line.to_owned(),
        },
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

async fn show(args: &StatusArgs) -> Result<StatusOutput, Failure> {
    let mut health: Health = parsed(args, PAGE, &fetch(args, PAGE).await?)?;
    let part = SelectedPart { namespace: args.namespace.as_deref(), gateway: args.gateway.as_deref() };
    if let Some(unknown) = part.unknown(&health) {
        // An unreadable input may contain the name.
        if health.inputs.problems.is_empty() {
            return Err(Failure::usage(unknown));
        }
        eprintln!("warning: {unknown}; the inputs that cannot be read may contain some");
    }
    health = part.of(health);
    let verdict = health.verdict;
    let text = match args.output {
        TableFormat::Text => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let coloured =
                std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
            let style = if coloured { Style::Coloured } else { Style::Plain };
            let now = i64::try_from(now).unwrap_or(i64::MAX);
            text::format(&health, &part, &args.diagnostics.0, now, style)
        }
        TableFormat::Json => {
            let mut page: Value = parsed(args, FALLBACK, &fetch(args, FALLBACK).await?)?;
            if let Some(fields) = page.as_object_mut() {
                fields.insert("health".into(), serde_json::to_value(&health).context("cannot write JSON")?);
            }
            let mut text = serde_json::to_string_pretty(&page).context("cannot write JSON")?;
            text.push('\n');
            text
        }
    };
    Ok(StatusOutput { verdict, text })
}

async fn fetch(args: &StatusArgs, page: &str) -> Result<hyper::body::Bytes, Failure> {
    client::get(&args.diagnostics, page).await.map_err(|error| undetermined(args, page, &error))
}

fn parsed<T: serde::de::DeserializeOwned>(args: &StatusArgs, page: &str, body: &[u8]) -> Result<T, Failure> {
    let answer = serde_json::from_slice(body).context("its answer is not valid");
    answer.map_err(|error| undetermined(args, page, &error))
}

fn undetermined(args: &StatusArgs, page: &str, error: &anyhow::Error) -> Failure {
    client::undetermined(&args.diagnostics, page, error)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
mod tests;
