//! The running process for bug reports: its version, its command line and the variables that set flags.

use std::collections::BTreeMap;

use serde::Serialize;

/// The beginning of the names of variables that set flags.
const VARIABLES: &str = "CONTROLLER_";

/// The page `/debug/process`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProcessPage {
    /// The version of the running program.
    version: &'static str,
    /// The command line.
    arguments: Vec<String>,
    /// The variables of the environment that set flags.
    environment: BTreeMap<String, String>,
}

impl ProcessPage {
    /// Describes this process.
    pub(super) fn new() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
        Self {
            version: env!("CARGO_PKG_VERSION"),
            arguments: std::env::args_os().map(text).collect(),
            environment: variables.filter(|(name, _)| name.starts_with(VARIABLES)).collect(),
        }
    }
}
