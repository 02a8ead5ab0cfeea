//! The thread that owns the store: what is to be stored waits for it, and nobody waits for the disk.
//!
//! Batches that wait are committed together. Trouble with the disk is told once, and tried again until it is over;
//! meanwhile what waits is merged, so that it takes no more than what there is to know.

mod merge;
mod work;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use holdfast_store::record::Statistics;
use holdfast_store::{Batch, LastValidStore};

/// Changes and resources that wait before what they supersede is taken out.
const WAITING_MAX: usize = 10_000;

/// How often is committed, and tried again.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time between the starts of two commits, at least.
    pub between: Duration,
    /// The first wait after an error; it doubles.
    pub again_after: Duration,
    /// The longest wait after an error.
    pub again_after_max: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            between: Duration::from_millis(20),
            again_after: Duration::from_secs(1),
            again_after_max: Duration::from_secs(30),
        }
    }
}

/// What metrics and pages tell of it.
#[derive(Clone, Debug, Default)]
pub struct Persisted {
    /// Commits that succeeded.
    pub commits: u64,
    /// Commits that failed.
    pub errors: u64,
    /// Changes that were refused for good: over a limit.
    pub refused: u64,
    /// How long the last commit took.
    pub last_duration: Duration,
    /// What the store holds, at most a second old while it is written.
    pub statistics: Statistics,
    /// Why nothing can be stored at the moment.
    pub failing: Option<String>,
}

/// What the thread and those who use it share.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Something waits, or it ends.
    wake: Condvar,
    /// Something was committed.
    done: Condvar,
    commits: AtomicU64,
    errors: AtomicU64,
    refused: AtomicU64,
    last_nanos: AtomicU64,
    told: Mutex<(Statistics, Option<String>)>,
    ended: AtomicBool,
}

#[derive(Default)]
struct Queue {
    waiting: Batch,
    /// Changes and resources in them.
    weight: usize,
    /// When merging is next worth it.
    merge_at: usize,
    /// Batches that came.
    came: u64,
    /// Of these, how many are stored.
    stored: u64,
    ending: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A batch is appended or taken in one step: there is no half of it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self) -> MutexGuard<'_, (Statistics, Option<String>)> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores what it is given, in its own time.
pub struct Persist {
    shared: Arc<Shared>,
}

impl Persist {
    /// Starts the thread that owns a store from now on, and says how long each commit took.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn start(
        store: impl LastValidStore + 'static,
        committed: impl Fn(Duration) + Send + 'static,
    ) -> anyhow::Result<Self> {
        Self::with_pace(store, Pace::default(), committed)
    }

    /// Starts it with another pace.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn with_pace(
        store: impl LastValidStore + 'static,
        pace: Pace,
        committed: impl Fn(Duration) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.told().0 = store.statistics();
        let own = shared.clone();
        std::thread::Builder::new()
            .name("persist".into())
            .spawn(move || work::work(store, &own, pace, committed))
            .context("cannot start the thread that stores")?;
        Ok(Self { shared })
    }

    /// Stores a batch soon. Never blocks.
    pub fn commit(&self, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        let mut queue = self.shared.queue();
        queue.weight += merge::weight(&batch);
        queue.waiting.append(batch);
        queue.came += 1;
        if queue.weight > queue.merge_at.max(WAITING_MAX) {
            queue.waiting = merge::merged(std::mem::take(&mut queue.waiting));
            queue.weight = merge::weight(&queue.waiting);
            // What is left is all different: it is not gone through again for every batch.
            queue.merge_at = queue.weight * 2;
        }
        self.shared.wake.notify_all();
    }

    /// Waits until all that came before is stored, or the time is over. Is it stored?
    pub fn flush(&self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let mut queue = self.shared.queue();
        let wanted = queue.came;
        while queue.stored < wanted {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.shared.ended.load(Ordering::SeqCst) {
                return false;
            }
            queue = self.shared.done.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// What metrics and pages tell of it.
    pub fn persisted(&self) -> Persisted {
        let (statistics, failing) = self.shared.told().clone();
        Persisted {
            commits: self.shared.commits.load(Ordering::Relaxed),
            errors: self.shared.errors.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
            last_duration: Duration::from_nanos(self.shared.last_nanos.load(Ordering::Relaxed)),
            statistics,
            failing,
        }
    }
}

/// The thread stores what waits, once, and ends; who wants to wait for it calls `flush` first.
impl Drop for Persist {
    fn drop(&mut self) {
        self.shared.queue().ending = true;
        self.shared.wake.notify_all();
    }
}

#[cfg(test)]
mod tests;
