//! Work of the persistence thread.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use holdfast_store::{Batch, LastValidStore, StoreError};

use super::{Pace, SharedQueue, merge};

/// Maximum age of the reported statistics while the store is written.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Commits waiting changes until the thread has to end.
pub(super) fn work(mut store: impl LastValidStore, shared: &SharedQueue, pace: Pace, committed: impl Fn(Duration)) {
    // Signals the end even if this thread panics, so that no caller waits for it.
    let _ended = EndOfWork(shared);
    let (mut next, mut reported_at) = (Instant::now(), None);
    let mut again_after = pace.again_after;
    loop {
        let (batch, came, ending) = take(shared, next);
        if batch.is_empty() {
            if ending {
                return;
            }
            continue;
        }
        let began = Instant::now();
        let outcome = commit(&mut store, batch, shared);
        let took = began.elapsed();
        shared.last_nanos.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        store.notices().iter().for_each(|notice| tracing::warn!("{notice}"));
        match outcome {
            Ok(()) => {
                shared.commits.fetch_add(1, Ordering::Relaxed);
                committed(took);
                if shared.reported().1.take().is_some() {
                    tracing::info!("last valid versions are stored again");
                }
                again_after = pace.again_after;
                next = began + pace.between;
                let mut queue = shared.queue();
                queue.stored = came;
                // What came during the commit is not older than the commit.
                queue.since = (queue.came > came).then_some(began);
                drop(queue);
                shared.done.notify_all();
            }
            Err((error, batch)) => {
                shared.errors.fetch_add(1, Ordering::Relaxed);
                let error = error.to_string();
                if shared.reported().1.replace(error.clone()).is_none() {
                    tracing::warn!("cannot store last valid versions; Holdfast tries again: {error}");
                }
                if ending {
                    return;
                }
                let mut queue = shared.queue();
                let newer = std::mem::replace(&mut queue.waiting, batch);
                queue.waiting.append(newer);
                queue.weight = merge::weight(&queue.waiting);
                next = Instant::now() + again_after;
                again_after = (again_after * 2).min(pace.again_after_max);
            }
        }
        if reported_at.is_none_or(|reported_at: Instant| reported_at.elapsed() >= REPORT_EVERY)
            || shared.queue().waiting.is_empty()
        {
            shared.reported().0 = store.statistics();
            reported_at = Some(Instant::now());
        }
    }
}

/// Waits until the next commit is due and changes wait; takes all of them.
fn take(shared: &SharedQueue, next: Instant) -> (Batch, u64, bool) {
    let mut queue = shared.queue();
    loop {
        let left = next.saturating_duration_since(Instant::now());
        if queue.ending || (left.is_zero() && !queue.waiting.is_empty()) {
            (queue.weight, queue.merge_at) = (0, 0);
            return (std::mem::take(&mut queue.waiting), queue.came, queue.ending);
        }
        queue = if left.is_zero() {
            shared.wake.wait(queue).unwrap_or_else(PoisonError::into_inner)
        } else {
            shared.wake.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0
        };
    }
}

/// Commits a batch. If the batch is rejected, its changes are committed one by one, so that one that is too large
/// affects no other.
fn commit(store: &mut impl LastValidStore, batch: Batch, shared: &SharedQueue) -> Result<(), (StoreError, Batch)> {
    match store.commit(batch.clone()) {
        Ok(()) => return Ok(()),
        Err(error) if error.is_refusal() => {}
        Err(error) => return Err((error, batch)),
    }
    let mut changes = batch.into_changes().into_iter();
    while let Some(change) = changes.next() {
        let one = Batch::default().with(change);
        match store.commit(one.clone()) {
            Ok(()) => {}
            Err(error) if error.is_refusal() => {
                shared.refused.fetch_add(1, Ordering::Relaxed);
                tracing::warn!("the store rejected a change, which is not stored: {error}");
            }
            Err(error) => return Err((error, changes.fold(one, Batch::with))),
        }
    }
    Ok(())
}

struct EndOfWork<'a>(&'a SharedQueue);

impl Drop for EndOfWork<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.done.notify_all();
    }
}
