//! Watch of the manifests: reads again after notifications of the operating system, and periodically.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::Sender;

use super::{ManifestReading, Manifests};
use crate::admin::input_metrics::Pulse;

/// Interval of readings with notifications of the operating system, which may miss changes (network file systems,
/// changed link targets, queue overflow).
pub const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Interval of readings without notifications.
pub const LOOK_EVERY_WITHOUT_EVENTS: Duration = Duration::from_secs(1);
/// Pause before a file that was being written is read again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Minimum time between two readings: a burst of changes is read once.
const GAP: Duration = Duration::from_millis(10);

/// The reason for a reading before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The operating system reports a change.
    Changed,
    /// A user requested it: the result is logged.
    Requested,
}

/// Wakes the reader.
pub type Waker = mpsc::Sender<Wake>;
/// Receives the reasons to read.
pub type Woken = mpsc::Receiver<Wake>;

/// A waker with its receiver.
pub fn wake() -> (Waker, Woken) {
    mpsc::channel()
}

/// Reads now, and then after each change or request, until the receiver of readings is closed.
///
/// # Errors
/// Returns an error if no thread can be started.
pub fn start(
    manifests: Manifests,
    readings: Sender<ManifestReading>,
    pulse: Pulse,
    wake: (Waker, Woken),
) -> io::Result<()> {
    thread::Builder::new().name("manifests".into()).spawn(move || run(manifests, &readings, &pulse, wake)).map(drop)
}

fn run(mut manifests: Manifests, readings: &Sender<ManifestReading>, pulse: &Pulse, (wake, woken): (Waker, Woken)) {
    let mut eyes = Eyes::new(&manifests, wake);
    let (mut last_problems, mut requested) = (None, false);
    loop {
        let started = Instant::now();
        let reading = manifests.read();
        let (restless, waiting) = (reading.restless, reading.waiting);
        let news = !reading.events.is_empty() || last_problems.as_ref() != Some(&reading.problems);
        last_problems = Some(reading.problems.clone());
        // A file that is being written is read again at once: only then is the result complete.
        if requested && !restless {
            requested = false;
            let (changes, problems) = (reading.events.len(), reading.problems.len());
            tracing::info!(changes, problems, "the manifests were read again as requested");
        }
        // The age of unreadable or unparsable input counts from its last successful reading.
        if reading.problems.is_empty() {
            pulse.beat();
        }
        if news && readings.blocking_send(reading).is_err() {
            return;
        }
        manifests.save();
        eyes.follow();
        let patience = match (restless, eyes.is_notified()) {
            (true, _) => LOOK_AGAIN,
            (false, true) if !waiting => LOOK_EVERY,
            (false, _) => LOOK_EVERY_WITHOUT_EVENTS,
        };
        let deadline = Instant::now() + patience;
        loop {
            if readings.is_closed() {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now()).min(LOOK_EVERY_WITHOUT_EVENTS);
            match woken.recv_timeout(left) {
                Ok(wake) => {
                    requested |= wake == Wake::Requested;
                    break;
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => break,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(left),
            }
        }
        thread::sleep(GAP.saturating_sub(started.elapsed()));
        while let Ok(wake) = woken.try_recv() {
            requested |= wake == Wake::Requested;
        }
    }
}

/// The operating system's watch of the roots.
struct Eyes {
    roots: Vec<PathBuf>,
    watcher: Option<RecommendedWatcher>,
    /// The watched real paths: when a link moves to another folder, that folder has to be watched instead.
    watched: BTreeSet<(PathBuf, bool)>,
}

impl Eyes {
    fn new(manifests: &Manifests, wake: Waker) -> Self {
        // Every event, including an error such as an overflow, triggers a reading. Reading also causes events (opened,
        // closed), which must not trigger another one.
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| !event.kind.is_access()) {
                // The receiver is gone only when the thread ends.
                let _ = wake.send(Wake::Changed);
            }
        });
        let watcher = watcher
            .map_err(|error| tracing::warn!(%error, "the system sends no events for changed files; files are checked each second"))
            .ok();
        let roots = manifests.roots().iter().map(|root| root.path.clone()).collect();
        Self { roots, watcher, watched: BTreeSet::new() }
    }

    fn is_notified(&self) -> bool {
        self.watcher.is_some() && !self.watched.is_empty()
    }

    /// Watches the current targets of the roots.
    fn follow(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let mut wanted = BTreeSet::new();
        for root in &self.roots {
            // A root that is a link, or a file, changes in its parent folder.
            let parent = root.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(".".as_ref());
            if (root.is_symlink() || !root.is_dir())
                && let Ok(parent) = fs::canonicalize(parent)
            {
                wanted.insert((parent, false));
            }
            if let Ok(real) = fs::canonicalize(root) {
                let recursive = real.is_dir();
                wanted.insert((real, recursive));
            }
        }
        for (path, _) in self.watched.difference(&wanted) {
            // The path may already be gone.
            let _ = watcher.unwatch(path);
        }
        self.watched.retain(|watch| wanted.contains(watch));
        for watch in wanted {
            if self.watched.contains(&watch) {
                continue;
            }
            let mode = if watch.1 { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            match watcher.watch(&watch.0, mode) {
                Ok(()) => {
                    self.watched.insert(watch);
                }
                Err(error) => {
                    tracing::warn!(path = %watch.0.display(), %error, "cannot watch this path for changes; files are \
                                                                       checked each second");
                    self.watcher = None;
                    return;
                }
            }
        }
    }
}
