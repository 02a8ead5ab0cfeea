//! Takes turns at the bucket for as long as the product runs, on a thread of its own: nobody waits for the bucket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use holdfast_store::shards::Bucket;
use holdfast_store::{Batch, LastValidStore};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::{Begun, Said, Sharing};
use crate::engine::Event;
use crate::run::admin::shared_metrics::SharedMetrics;
use crate::run::serve::core::Asker;
use crate::run::store::persist::Persist;

/// How often is looked whether another has written.
const EVERY: Duration = Duration::from_secs(1);
/// How soon what was proven or refused is shared, after what was shared before.
const SOON: Duration = Duration::from_millis(100);
/// The longest wait while the bucket is away.
const AWAY_MAX: Duration = Duration::from_secs(30);
/// Where it is noted which generation the replica's own store is the same as.
const NOTED: &str = "shared-generation";

/// What is shared, before its turns begin.
pub struct Shared {
    sharing: Sharing<Box<dyn Bucket>>,
    metrics: SharedMetrics,
    data: PathBuf,
}

/// Says whether this replica is to lead.
pub type Leads = Box<dyn FnMut() -> bool + Send>;

/// Where what is to be shared is given.
pub type Outbox = Sender<Batch>;

impl Shared {
    /// What is shared by these replicas; the folder is that of this one's data.
    pub fn new(sharing: Sharing<Box<dyn Bucket>>, metrics: SharedMetrics, data: &Path) -> Self {
        Self { sharing, metrics, data: data.to_owned() }
    }

    /// What to begin with: what is shared, and what makes the replica's own store the same where that is older.
    pub fn begin(&mut self, own: &impl LastValidStore) -> Begun {
        let noted = std::fs::read_to_string(self.data.join(NOTED)).ok();
        let generation = noted.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        // The bucket may have to be waited for, and nothing is served before.
        match tokio::task::block_in_place(|| self.sharing.begin(own, generation)) {
            Ok(begun) => {
                self.reached(false);
                begun.notices.iter().for_each(|notice| tracing::warn!("shared store: {notice}"));
                begun
            }
            Err(error) => {
                self.metrics.failed();
                tracing::warn!(%error, "what is shared cannot be read; beginning with what this replica has");
                Begun::default()
            }
        }
    }

    fn reached(&self, written: bool) {
        self.metrics.reached(self.sharing.generation(), self.sharing.bytes(), written);
    }

    /// Begins to take turns, and leads while `leads` says so. What is given to the outbox is shared; what happened comes
    /// out of the receiver.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn start(
        self,
        leads: Leads,
        asker: Asker,
        persist: Option<Arc<Persist>>,
    ) -> anyhow::Result<(Outbox, mpsc::Receiver<Vec<Event>>)> {
        let (outbox, batches) = channel();
        let (events_in, events) = mpsc::channel(1);
        let runtime = Handle::current();
        let work = move || work(self, leads, &runtime, &batches, &events_in, &asker, persist.as_deref());
        std::thread::Builder::new().name("share".into()).spawn(work).context("cannot start the thread that shares")?;
        Ok((outbox, events))
    }
}

fn work(
    mut shared: Shared,
    mut leads: Leads,
    runtime: &Handle,
    batches: &Receiver<Batch>,
    events: &mpsc::Sender<Vec<Event>>,
    asker: &Asker,
    persist: Option<&Persist>,
) {
    let (mut away, mut noted) = (None, 0);
    let mut first = Some(SOON);
    while let Some(batch) = wait(batches, away.or_else(|| first.take()).unwrap_or(EVERY)) {
        let asked = runtime.block_on(asker.ask(|core| (core.engine.offered_to_all(), core.engine.observation())));
        let Some((offers, seen)) = asked else { return };
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let now_ms = u64::try_from(now_ms).unwrap_or(u64::MAX);
        let turn = match shared.sharing.turn(Said { leads: leads(), batch, offers, seen, now_ms }) {
            Ok(turn) => turn,
            Err(error) => {
                shared.metrics.failed();
                if away.is_none() {
                    tracing::warn!(%error, "what replicas share cannot be reached, and is tried again");
                }
                away = Some((away.unwrap_or(EVERY) * 2).min(AWAY_MAX));
                continue;
            }
        };
        if away.take().is_some() {
            tracing::info!("what replicas share is reached again");
        }
        turn.notices.iter().for_each(|notice| tracing::warn!("shared store: {notice}"));
        if let Some(persist) = persist {
            persist.commit(turn.mirror);
        }
        for event in &turn.events {
            if let Event::Role(role) = event {
                tracing::info!(?role, "this replica has a role");
            }
        }
        if !turn.events.is_empty() && events.blocking_send(turn.events).is_err() {
            return;
        }
        let generation = shared.sharing.generation();
        shared.reached(turn.wrote);
        if generation != noted {
            noted = generation;
            // Where this fails the next start takes what is shared for newer than it is: that costs nothing.
            let _ = std::fs::write(shared.data.join(NOTED), format!("{generation}\n"));
        }
    }
}

/// Waits for something to share, or for the time to look; none where the product ends.
fn wait(batches: &Receiver<Batch>, at_most: Duration) -> Option<Batch> {
    let mut batch = match batches.recv_timeout(at_most) {
        Ok(batch) => batch,
        Err(RecvTimeoutError::Timeout) => return Some(Batch::default()),
        Err(RecvTimeoutError::Disconnected) => return None,
    };
    // What comes together is shared together.
    let until = Instant::now() + SOON;
    while let Ok(more) = batches.recv_timeout(until.saturating_duration_since(Instant::now())) {
        batch.append(more);
    }
    Some(batch)
}
