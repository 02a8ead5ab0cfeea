//! Structured log on standard error.

mod level;

use std::io::Write;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use self::level::SetFilter;
pub(crate) use self::level::{LOG_DIRECTIVES_BYTES_MAX, LOG_LEVEL_TIME_MAX, LogLevelView, RuntimeLogLevel};
use super::cli::LogFormat;
use super::log_tail;
use super::printable::printable;

/// Starts logging; returns the level, which can be changed while the process runs. `level` is a level or directives, as in
/// `--log-level`.
///
/// # Errors
/// Returns an error if the directives do not parse, or logging was started before.
pub(crate) fn start(format: LogFormat, level: &str) -> anyhow::Result<RuntimeLogLevel> {
    let filter = EnvFilter::try_new(directives(level)).with_context(|| format!("--log-level {level}"))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    let (started, set): (_, SetFilter) = match format {
        LogFormat::Text => {
            let colors = std::io::IsTerminal::is_terminal(&std::io::stderr());
            let log = log.with_target(false).with_ansi(colors);
            let log = log.with_writer(move || OneLine { to: std::io::stderr(), colors }).with_filter_reloading();
            let filter = log.reload_handle();
            (log.try_init(), Box::new(move |new| filter.reload(new).map_err(|error| error.to_string())))
        }
        LogFormat::Json => {
            let log = log.json().flatten_event(true);
            let log = log.with_writer(|| OneLine { to: std::io::stderr(), colors: false }).with_filter_reloading();
            let filter = log.reload_handle();
            (log.try_init(), Box::new(move |new| filter.reload(new).map_err(|error| error.to_string())))
        }
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))?;
    Ok(RuntimeLogLevel::new(set, level))
}

/// Writes each log event as one line, since its fields may contain external text that must not imitate other events.
struct OneLine<W> {
    to: W,
    /// Escape characters come only from the formatter, which escapes all others itself.
    colors: bool,
}

impl<W: Write> Write for OneLine<W> {
    /// Writes a log event, which always arrives completely. If it cannot be written (a full disk, a closed terminal, a
    /// reader that has ended), it is only in the tail: an error would end the thread that logs.
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = printable(line, |character| self.colors && character == '\u{1b}');
        log_tail::keep(&without_colors(&line));
        let _ = self.to.write_all(format!("{line}\n").as_bytes());
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let _ = self.to.flush();
        Ok(())
    }
}

/// Removes the escape sequences of colours, which end with `m`.
fn without_colors(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// Disables the logs of the Kubernetes client about failed requests; Holdfast logs each failure once itself.
const CLIENTS: &str = "kube_client=off,kube_runtime=off";

/// Applies a plain level to the product only, and not to each frame of the protocols below it.
fn directives(level: &str) -> String {
    match level {
        "debug" | "trace" => {
            format!(
                "{level},h2=info,hyper=info,hyper_util=info,mio=info,notify=info,rustls=info,sled=info,tonic=info,\
                 tower=info,{CLIENTS}"
            )
        }
        "error" | "warn" | "info" => format!("{level},{CLIENTS}"),
        _ => level.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_not_kept() {
        assert_eq!(without_colors("\u{1b}[2m2026\u{1b}[0m \u{1b}[33m WARN\u{1b}[0m refused"), "2026  WARN refused");
        assert_eq!(without_colors("plain"), "plain");
    }

    #[test]
    fn an_event_is_one_line() -> std::io::Result<()> {
        for (colors, shown) in [
            (false, "INFO x name=a\\n2026 ERROR b\\r\\u{1b}[2J\\u{202e}\n"),
            (true, "INFO x name=a\\n2026 ERROR b\\r\u{1b}[2J\\u{202e}\n"),
        ] {
            let mut log = OneLine { to: Vec::new(), colors };
            log.write_all("INFO x name=a\n2026 ERROR b\r\u{1b}[2J\u{202e}\n".as_bytes())?;
            assert_eq!(String::from_utf8_lossy(&log.to), shown);
        }
        Ok(())
    }

    /// A writer that fails, as standard error on a full disk or of a closed terminal.
    struct Failing;

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_log_that_cannot_be_written_is_no_error() -> std::io::Result<()> {
        let mut log = OneLine { to: Failing, colors: false };
        log.write_all(b"only in the tail\n")?;
        log.flush()?;
        assert!(log_tail::text().contains("only in the tail\n"));
        Ok(())
    }
}
