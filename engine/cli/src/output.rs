//! Standard output of commands, and the forms of data.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Context;
use holdfast_envoy::yaml;
use serde_json::Value;

use super::cli::DataFormat;
use super::failure::Failure;

/// Prints text. A closed reader is no failure.
///
/// # Errors
/// Returns an error if the text cannot be printed.
pub fn print(text: &str) -> Result<ExitCode, Failure> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(anyhow::Error::new(error).context("cannot print").into()),
    }
}

/// A value as text, with its keys in order and a final line break.
///
/// # Errors
/// Returns no error in practice: every JSON value can be written.
pub fn format(value: &Value, form: DataFormat) -> anyhow::Result<String> {
    let mut text = match form {
        DataFormat::Yaml => yaml::text(value).context("cannot write YAML")?,
        DataFormat::Json => serde_json::to_string_pretty(value).context("cannot write JSON")?,
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// A duration in its largest meaningful unit.
pub fn age(now: i64, since: i64) -> String {
    match now.saturating_sub(since).max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}
