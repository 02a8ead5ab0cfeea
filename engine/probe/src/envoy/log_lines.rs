//! Forwards the log of an Envoy line by line, with the name of its Gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use holdfast_xds::scrub;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum number of bytes of a line that are forwarded; the rest of a longer line is dropped.
const LOG_LINE_BYTES_MAX: usize = 4096;
/// Envoy's log format: the level, and the message.
pub const FORMAT: &str = "[%l] %v";

/// The target of an Envoy's log lines.
#[derive(Clone, Debug)]
pub struct LogTarget {
    /// `namespace/name` of the Gateway.
    pub gateway: Arc<str>,
    /// True once the Envoy is being ended: its warnings about that are not worth a warning of Holdfast.
    pub ending: Arc<AtomicBool>,
}

/// Forwards all lines until the end of the stream.
pub async fn pass_on(target: LogTarget, mut from: impl AsyncRead + Unpin) {
    let (mut buffer, mut line, mut chunk) = (vec![0; 8192], Vec::new(), 0..0);
    loop {
        if chunk.is_empty() {
            match from.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(read) => chunk = 0..read,
            }
        }
        let rest = buffer.get(chunk.clone()).unwrap_or_default();
        let (part, ended) = match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => (&rest[..end], true),
            None => (rest, false),
        };
        chunk.start += part.len() + usize::from(ended);
        line.extend_from_slice(&part[..part.len().min(LOG_LINE_BYTES_MAX - line.len())]);
        if ended {
            target.log(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    if !line.is_empty() {
        target.log(&String::from_utf8_lossy(&line));
    }
}

impl LogTarget {
    /// Logs a line. Envoy's messages may contain parts of its configuration, so secrets are removed.
    fn log(&self, line: &str) {
        let (level, text) = split(line);
        let gateway = &*self.gateway;
        if text.is_empty() {
            return;
        }
        match level {
            "error" | "critical" => tracing::error!(target: "envoy", gateway, "{}", scrub(text)),
            "warning" if !self.ending.load(Relaxed) => tracing::warn!(target: "envoy", gateway, "{}", scrub(text)),
            "warning" | "info" | "" => tracing::debug!(target: "envoy", gateway, "{}", scrub(text)),
            _ => tracing::trace!(target: "envoy", gateway, "{}", scrub(text)),
        }
    }
}

/// Level and text of `[level] text`; an empty level if the line has another form.
fn split(line: &str) -> (&str, &str) {
    line.strip_prefix('[').and_then(|line| line.split_once("] ")).unwrap_or(("", line.trim()))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn lines_begin_with_their_level() {
        assert_eq!(split("[warning] a: b] c"), ("warning", "a: b] c"));
        assert_eq!(split("terminate called"), ("", "terminate called"));
    }
}
