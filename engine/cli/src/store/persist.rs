//! Persistence: the thread that owns the store. Changes wait in its queue, so that no other thread waits for the disk.
//!
//! Waiting batches are committed together. A disk error is logged once, and the commit repeated until it succeeds;
//! meanwhile waiting changes are merged, so that memory is bounded by the size of the state.

mod merge;
mod work;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use holdfast_store::record::Statistics;
use holdfast_store::{Batch, LastValidStore};

/// Maximum number of waiting changes and resources before superseded ones are removed.
const STORE_CHANGES_MAX: usize = 10_000;
/// How long changes may wait for the disk before the store counts as failing.
const STORE_WAIT_MAX: Duration = Duration::from_secs(30);

/// The timing of commits and of retries.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Minimum time between the starts of two commits.
    pub between: Duration,
    /// The first wait after an error; it doubles.
    pub again_after: Duration,
    /// The maximum wait after an error.
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

/// The state of the persistence, for metrics and pages.
#[derive(Clone, Debug, Default)]
pub struct Persisted {
    /// Number of successful commits.
    pub commits: u64,
    /// Number of failed commits.
    pub errors: u64,
    /// Number of changes that were rejected for good, because they exceed a limit.
    pub refused: u64,
    /// Duration of the last commit.
    pub last_duration: Duration,
    /// Statistics of the store, at most a second old while it is written.
    pub statistics: Statistics,
    /// The reason why commits currently fail.
    pub failing: Option<String>,
    /// The age of the oldest change that is not on the disk yet.
    pub waits: Option<Duration>,
}

impl Persisted {
    /// The reason why changes currently do not get to the disk: commits fail, or one of them does not end.
    pub fn not_stored(&self) -> Option<String> {
        let waits = self.waits.filter(|waits| *waits >= STORE_WAIT_MAX);
        let hangs = || waits.map(|waits| format!("changes have waited for the disk for {} s", waits.as_secs()));
        self.failing.clone().or_else(hangs)
    }
}

/// The state that the thread shares with its users.
#[derive(Default)]
struct SharedQueue {
    queue: Mutex<Queue>,
    /// Notified when changes wait, or the thread has to end.
    wake: Condvar,
    /// Notified after a commit.
    done: Condvar,
    commits: AtomicU64,
    errors: AtomicU64,
    refused: AtomicU64,
    last_nanos: AtomicU64,
    reported: Mutex<(Statistics, Option<String>)>,
    ended: AtomicBool,
}

#[derive(Default)]
struct Queue {
    waiting: Batch,
    /// The number of waiting changes and of resources in them.
    weight: usize,
    /// The weight above which the next merge is worthwhile.
    merge_at: usize,
    /// The number of batches that arrived.
    came: u64,
    /// The number of these batches that are stored.
    stored: u64,
    /// When the oldest change arrived that is not stored, or a moment before.
    since: Option<Instant>,
    ending: bool,
}

impl SharedQueue {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A batch is appended or taken in one step, so a panic leaves no partial batch.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reported(&self) -> MutexGuard<'_, (Statistics, Option<String>)> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The handle of the thread that stores changes.
pub struct Persist {
    shared: Arc<SharedQueue>,
}

impl Persist {
    /// Starts the thread that owns the store from now on; `committed` receives the duration of each commit.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn start(
        store: impl LastValidStore + 'static,
        committed: impl Fn(Duration) + Send + 'static,
    ) -> anyhow::Result<Self> {
        Self::with_pace(store, Pace::default(), committed)
    }

    /// Starts the thread with other timing.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn with_pace(
        store: impl LastValidStore + 'static,
        pace: Pace,
        committed: impl Fn(Duration) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let shared = Arc::new(SharedQueue::default());
        shared.reported().0 = store.statistics();
        let own = shared.clone();
        std::thread::Builder::new()
            .name("persist".into())
            .spawn(move || work::work(store, &own, pace, committed))
            .context("cannot start the thread that stores")?;
        Ok(Self { shared })
    }

    /// Queues a batch for the next commit. Never blocks.
    pub fn commit(&self, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        let mut queue = self.shared.queue();
        queue.weight += merge::weight(&batch);
        queue.waiting.append(batch);
        queue.came += 1;
        queue.since.get_or_insert_with(Instant::now);
        if queue.weight > queue.merge_at.max(STORE_CHANGES_MAX) {
            queue.waiting = merge::merged(std::mem::take(&mut queue.waiting));
            queue.weight = merge::weight(&queue.waiting);
            // No two of the remaining changes supersede each other, so they are not merged again for every batch.
            queue.merge_at = queue.weight * 2;
        }
        self.shared.wake.notify_all();
    }

    /// Waits until all earlier batches are stored, or until the timeout; returns whether they are stored.
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

    /// The state of the persistence, for metrics and pages.
    pub fn persisted(&self) -> Persisted {
        let (statistics, failing) = self.shared.reported().clone();
        let waits = self.shared.queue().since.map(|since| since.elapsed());
        Persisted {
            commits: self.shared.commits.load(Ordering::Relaxed),
            errors: self.shared.errors.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
            last_duration: Duration::from_nanos(self.shared.last_nanos.load(Ordering::Relaxed)),
            statistics,
            failing,
            waits,
        }
    }
}

/// The thread commits the waiting changes once, and ends; a caller that has to wait for it calls `flush` first.
impl Drop for Persist {
    fn drop(&mut self) {
        self.shared.queue().ending = true;
        self.shared.wake.notify_all();
    }
}

#[cfg(test)]
mod tests;
