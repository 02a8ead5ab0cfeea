//! End of a run: why it ends, and the order in which its tasks end.

use std::time::Duration;

use holdfast_xds::ServeError;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::signals::Signals;

/// How long streams may take to end.
const STREAMS_END_MAX: Duration = Duration::from_secs(2);
/// How long the release of the Lease may take; after that another replica has to wait until the Lease expires.
const LEAD_ENDS_MAX: Duration = Duration::from_secs(2);

/// The tasks of a run.
pub(super) struct RunningTasks {
    /// The main loop.
    pub(super) core: JoinHandle<()>,
    /// The xDS server.
    pub(super) xds: JoinHandle<Result<(), ServeError>>,
    /// The servers of the pages.
    pub(super) pages: JoinSet<()>,
    /// The leader election; `None` without a Lease.
    pub(super) leader: Option<JoinHandle<()>>,
    /// Ends all tasks except the xDS server.
    pub(super) end: watch::Sender<bool>,
    /// Ends the xDS server.
    pub(super) end_xds: watch::Sender<bool>,
}

impl RunningTasks {
    /// Waits for a signal, or for the failure of a task; returns the failure.
    pub(super) async fn until_the_end(&mut self, signals: &mut Signals) -> Option<anyhow::Error> {
        tokio::select! {
            signal = signals.next() => {
                tracing::info!(signal, "ending");
                None
            }
            outcome = &mut self.core => {
                let error = outcome.err().map_or_else(|| anyhow::anyhow!("it ended unexpectedly"), anyhow::Error::from);
                Some(error.context("the main loop failed"))
            }
            outcome = &mut self.xds => {
                let error = match outcome {
                    Ok(Ok(())) => anyhow::anyhow!("it ended unexpectedly"),
                    Ok(Err(error)) => error.into(),
                    Err(error) => error.into(),
                };
                Some(error.context("the xDS server failed"))
            }
        }
    }

    /// Ends all tasks in order. The Envoys end first: until then their configuration stays.
    pub(super) async fn end(mut self, signals: &mut Signals) {
        // An error means that no receiver is left.
        let _ = self.end.send(true);
        if !self.core.is_finished() {
            tokio::select! {
                _ = &mut self.core => {}
                signal = signals.next() => tracing::warn!(signal, "ending immediately; the next start of Holdfast \
                                                                   adopts or ends Envoys that still run"),
            }
        }
        let _ = self.end_xds.send(true);
        if !self.xds.is_finished() {
            let _ = tokio::time::timeout(STREAMS_END_MAX, self.xds).await;
        }
        self.pages.shutdown().await;
        if let Some(leader) = self.leader {
            let _ = tokio::time::timeout(LEAD_ENDS_MAX, leader).await;
        }
    }
}
