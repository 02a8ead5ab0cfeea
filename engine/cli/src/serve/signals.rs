//! Signals of the operating system: those that end the product, SIGHUP, and those that it ignores.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use crate::manifests::watch::{Wake, Waker};

/// The signals that end the product. Other signals are answered with a log entry.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    _others: JoinSet<()>,
}

/// Signals that would end the process if they were not handled, with their log entries.
const IGNORED: [(&str, SignalKind, &str); 2] = [
    (
        "SIGUSR1",
        SignalKind::user_defined1(),
        "ignored: the log goes to standard error and is not reopened; holdfast log-level changes its level",
    ),
    ("SIGUSR2", SignalKind::user_defined2(), "ignored: Holdfast does not use this signal"),
];

/// What SIGHUP does not change.
const NOT_RELOADED: &str = "certificates and keys of servers are read again whenever they change, without this \
                            signal; flags, environment variables and the store key apply after a restart";

impl Signals {
    /// Handles the signals from now on. SIGHUP wakes the reader of manifests.
    pub(super) fn new(reader: Waker) -> anyhow::Result<Self> {
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
        let mut hangup = listen(SignalKind::hangup())?;
        others.spawn(async move {
            while hangup.recv().await.is_some() {
                // There is no reader if the objects come from an API server.
                match reader.send(Wake::Requested) {
                    Ok(()) => tracing::info!(signal = "SIGHUP", "reads the manifests again; {NOT_RELOADED}"),
                    Err(_) => tracing::info!(signal = "SIGHUP", "objects are watched, nothing to read; {NOT_RELOADED}"),
                }
            }
        });
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
