//! The log: structured, on standard error.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use super::cli::LogFormat;

/// Starts logging. `level` is a level or directives, as `--log-level` takes them.
///
/// # Errors
/// Where the directives do not parse, or logging was started before.
pub fn start(format: LogFormat, level: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(directives(level)).with_context(|| format!("--log-level {level}"))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => {
            log.with_target(false).with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init()
        }
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}

/// What clients of the API server say of each request that fails, is told in words of our own, once.
const CLIENTS: &str = "kube_client=off,kube_runtime=off";

/// A level alone is meant for the product, not for every frame of the protocols below it.
fn directives(level: &str) -> String {
    match level {
        "debug" | "trace" => {
            format!("{level},h2=info,hyper=info,hyper_util=info,tonic=info,tower=info,rustls=info,{CLIENTS}")
        }
        "error" | "warn" | "info" => format!("{level},{CLIENTS}"),
        _ => level.to_owned(),
    }
}
