//! Task of sharing: runs turns until the product ends, on a separate thread, so that no other task waits for the
//! bucket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use holdfast_engine::engine::Event;
use holdfast_store::shards::Bucket;
use holdfast_store::{Batch, LastValidStore};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::{Begun, Sharing, TurnInputs};
use crate::admin::shared_metrics::SharedMetrics;
use crate::serve::core::CoreHandle;
use crate::store::persist::Persist;

/// Interval at which the shared state is checked.
const EVERY: Duration = Duration::from_secs(1);
/// Minimum interval between two writes of proven and refused configuration.
const SOON: Duration = Duration::from_millis(100);
/// Maximum wait while the bucket is unavailable.
const BUCKET_PAUSE_MAX: Duration = Duration::from_secs(30);
/// The file with the generation to which the replica's own store is equal.
const NOTED: &str = "shared-generation";

/// The shared state, before its task starts.
pub struct SharingTask {
    sharing: Sharing<Box<dyn Bucket>>,
    metrics: SharedMetrics,
    data: PathBuf,
}

/// Returns whether this replica has to lead.
pub type Leads = Box<dyn FnMut() -> bool + Send>;

/// The sender of changes to share.
pub type Outbox = Sender<Batch>;

impl SharingTask {
    /// The shared state of these replicas; `data` is this replica's data folder.
    pub fn new(sharing: Sharing<Box<dyn Bucket>>, metrics: SharedMetrics, data: &Path) -> Self {
        Self { sharing, metrics, data: data.to_owned() }
    }

    /// The initial state: the shared state, and the changes that bring the replica's own store to it if that is older.
    pub fn begin(&mut self, own: &impl LastValidStore) -> Begun {
        let noted = std::fs::read_to_string(self.data.join(NOTED)).ok();
        let generation = noted.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        // The bucket may block, and nothing is served before.
        match tokio::task::block_in_place(|| self.sharing.begin(own, generation)) {
            Ok(begun) => {
                self.reached(false);
                begun.notices.iter().for_each(|notice| tracing::warn!("shared store: {notice}"));
                begun
            }
            Err(error) => {
                self.metrics.failed();
                tracing::warn!(%error, "cannot read the shared store; starting with the store of this replica");
                Begun::default()
            }
        }
    }

    fn reached(&self, written: bool) {
        self.metrics.reached(self.sharing.generation(), self.sharing.bytes(), written);
    }

    /// Starts the task, which leads while `leads` returns true. Changes sent to the outbox are shared; events arrive on
    /// the receiver.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn start(
        self,
        leads: Leads,
        handle: CoreHandle,
        persist: Option<Arc<Persist>>,
    ) -> anyhow::Result<(Outbox, mpsc::Receiver<Vec<Event>>)> {
        let (outbox, batches) = channel();
        let (events_in, events) = mpsc::channel(1);
        let runtime = Handle::current();
        let work = move || work(self, leads, &runtime, &batches, &events_in, &handle, persist.as_deref());
        std::thread::Builder::new().name("share".into()).spawn(work).context("cannot start the thread that shares")?;
        Ok((outbox, events))
    }
}

fn work(
    mut shared: SharingTask,
    mut leads: Leads,
    runtime: &Handle,
    batches: &Receiver<Batch>,
    events: &mpsc::Sender<Vec<Event>>,
    handle: &CoreHandle,
    persist: Option<&Persist>,
) {
    let (mut away, mut noted) = (None, 0);
    let mut first = Some(SOON);
    while let Some(batch) = wait(batches, away.or_else(|| first.take()).unwrap_or(EVERY)) {
        let observed = runtime.block_on(handle.query(|core| (core.engine.offered_to_all(), core.engine.observation())));
        let Some((offers, seen)) = observed else { return };
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let now_ms = u64::try_from(now_ms).unwrap_or(u64::MAX);
        let turn = match shared.sharing.turn(TurnInputs { leads: leads(), batch, offers, seen, now_ms }) {
            Ok(turn) => turn,
            Err(error) => {
                shared.metrics.failed();
                if away.is_none() {
                    tracing::warn!(%error, "the shared store is unavailable; Holdfast tries again");
                }
                away = Some((away.unwrap_or(EVERY) * 2).min(BUCKET_PAUSE_MAX));
                continue;
            }
        };
        if away.take().is_some() {
            tracing::info!("the shared store is available again");
        }
        turn.notices.iter().for_each(|notice| tracing::warn!("shared store: {notice}"));
        if let Some(persist) = persist {
            persist.commit(turn.mirror);
        }
        for event in &turn.events {
            if let Event::Role(role) = event {
                tracing::info!(?role, "the role of this replica has changed");
            }
        }
        if !turn.events.is_empty() && events.blocking_send(turn.events).is_err() {
            return;
        }
        let generation = shared.sharing.generation();
        shared.reached(turn.wrote);
        if generation != noted {
            noted = generation;
            // After an error the next start takes the shared state for newer than it is, which is harmless.
            let _ = std::fs::write(shared.data.join(NOTED), format!("{generation}\n"));
        }
    }
}

/// Waits for changes to share, or for the next check; `None` if the product ends.
fn wait(batches: &Receiver<Batch>, at_most: Duration) -> Option<Batch> {
    let mut batch = match batches.recv_timeout(at_most) {
        Ok(batch) => batch,
        Err(RecvTimeoutError::Timeout) => return Some(Batch::default()),
        Err(RecvTimeoutError::Disconnected) => return None,
    };
    // Changes that arrive together are shared together.
    let until = Instant::now() + SOON;
    while let Ok(more) = batches.recv_timeout(until.saturating_duration_since(Instant::now())) {
        batch.append(more);
    }
    Some(batch)
}
