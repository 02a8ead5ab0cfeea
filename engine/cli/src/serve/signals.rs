//! Signals of the operating system: those that end the product, and those that it ignores.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

/// The signals that end the product. Other signals are answered with a log entry.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    _others: JoinSet<()>,
}

/// Signals that would end the process if they were not handled, with their log entries.
const IGNORED: [(&str, SignalKind, &str); 3] = [
    (
        "SIGHUP",
        SignalKind::hangup(),
        "ignored: manifests, certificates and keys are read again when they change, flags at a restart",
    ),
    (
        "SIGUSR1",
        SignalKind::user_defined1(),
        "ignored: the log goes to standard error and is not reopened; holdfast status shows what is served",
    ),
    ("SIGUSR2", SignalKind::user_defined2(), "ignored: Holdfast does not use this signal"),
];

impl Signals {
    /// Handles the signals from now on.
    pub(super) fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let mut others = JoinSet::new();
        for (name, kind, answer) in IGNORED {
            let mut received = listen(kind)?;
            others.spawn(async move {
                while received.recv().await.is_some() {
                    tracing::warn!(signal = name, "{answer}");
                }
            });
        }
        let (terminate, interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, _others: others })
    }

    /// The result of a step of the start; `None` if a signal ends the product before.
    pub(super) async fn unless_ended<T>(&mut self, step: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            result = step => Some(result),
            signal = self.next() => {
                tracing::info!(signal, "ended during the start");
                None
            }
        }
    }

    /// Waits for a signal that ends the product; returns its name.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
