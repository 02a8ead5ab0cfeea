//! `holdfast log-level`: shows or changes the level of the log of a running Holdfast, for a limited time.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use holdfast_check::duration;
use hyper::Method;
use serde::Deserialize;
use serde_json::Value;

use super::status::{Diagnostics, client};
use crate::arguments;
use crate::cli::{DataFormat, TableFormat};
use crate::failure::Failure;
use crate::log::{LOG_LEVEL_TIME_MAX, LogLevelView};
use crate::output;
use crate::printable::plain;

/// The page of the level.
const PAGE: &str = "/debug/log-level";

/// `holdfast log-level`.
#[derive(Debug, Args)]
pub struct LogLevelArgs {
    /// off, error, warn, info, debug, trace, or directives such as info,holdfast_xds=debug [default: show the level]
    #[arg(value_name = "LEVEL", value_parser = arguments::log_level)]
    pub level: Option<String>,
    /// Time until the level of the start applies again, at most 24h
    #[arg(long = "for", env = "CONTROLLER_FOR", value_name = "DURATION", default_value = "10m", value_parser = time)]
    pub time: Duration,
    /// Apply the level of the start now
    #[arg(long, env = "CONTROLLER_RESET", conflicts_with = "level")]
    pub reset: bool,
    /// Address of diagnostics of a running Holdfast (`--diagnostics-listen`): HOST:PORT, or http://HOST:PORT
    #[arg(long, env = "CONTROLLER_DIAGNOSTICS", value_name = "ADDR", default_value = "127.0.0.1:10256")]
    pub diagnostics: Diagnostics,
    /// Form of the output
    #[arg(long, short, env = "CONTROLLER_OUTPUT", value_enum, default_value_t = TableFormat::Text)]
    pub output: TableFormat,
}

/// Parses the time for which a level applies, of whole seconds.
fn time(text: &str) -> Result<Duration, String> {
    let time = duration::duration(text).map_err(|fault| fault.to_string())?;
    if time.subsec_nanos() == 0 && !time.is_zero() && time <= LOG_LEVEL_TIME_MAX {
        return Ok(time);
    }
    Err("the time must be from 1s to 24h, in whole seconds".into())
}

/// Shows the level, or changes it and shows the result.
///
/// # Errors
/// Returns an error if Holdfast cannot be reached, or does not accept the change.
pub fn run(args: &LogLevelArgs) -> Result<ExitCode, Failure> {
    let (method, path) = request(args);
    let body = client::send(&args.diagnostics, method, PAGE, &path)?;
    let invalid = |error: serde_json::Error| {
        let error = anyhow::Error::new(error).context("its answer is not valid");
        client::undetermined(&args.diagnostics, PAGE, &error)
    };
    let document: Value = serde_json::from_slice(&body).map_err(invalid)?;
    let view = LogLevelView::deserialize(&document).map_err(invalid)?;
    match args.output {
        TableFormat::Text => output::print(&text(&view)),
        TableFormat::Json => output::print(&output::format(&document, DataFormat::Json)?),
    }
}

fn request(args: &LogLevelArgs) -> (Method, String) {
    match &args.level {
        Some(level) => {
            let seconds = args.time.as_secs().to_string();
            let mut query = form_urlencoded::Serializer::new(format!("{PAGE}?"));
            (Method::PUT, query.append_pair("level", level).append_pair("seconds", &seconds).finish())
        }
        None if args.reset => (Method::DELETE, PAGE.to_owned()),
        None => (Method::GET, PAGE.to_owned()),
    }
}

fn text(view: &LogLevelView) -> String {
    let LogLevelView { level, seconds_left, started_with } = view;
    let text = match seconds_left {
        Some(left) => format!("{level} for {left} s, then {started_with}"),
        None => level.clone(),
    };
    format!("{}\n", plain(&text))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds_of_at_most_a_day() {
        assert_eq!(time("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(time("24h"), Ok(LOG_LEVEL_TIME_MAX));
        for wrong in ["0s", "1500ms", "25h", "-1s", "soon", ""] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_level_for_some_time_has_what_follows_it() {
        let view = |seconds_left| LogLevelView { level: "debug".into(), seconds_left, started_with: "info".into() };
        assert_eq!(text(&view(Some(600))), "debug for 600 s, then info\n");
        assert_eq!(text(&view(None)), "debug\n");
        let odd = LogLevelView { level: "a\u{1b}c=debug".into(), ..view(None) };
        assert_eq!(text(&odd), "a\\u{1b}c=debug\n");
    }
}
