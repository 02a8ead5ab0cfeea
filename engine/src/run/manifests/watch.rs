//! Reads again when something changed: told by the operating system, and by looking from time to time.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::Sender;

use super::{Manifests, Reading};
use crate::run::admin::input_metrics::Pulse;

/// How often the files are looked at where the operating system tells of changes: it may miss some (network file
/// systems, links whose target moved, an overflowing queue).
pub const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often they are looked at where it does not.
pub const LOOK_EVERY_UNTOLD: Duration = Duration::from_secs(1);
/// How long to wait before a file is read again that was being written.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The least time between two readings: a burst of changes is read once.
const GAP: Duration = Duration::from_millis(10);

/// Reads now, and then whenever something changed, until nobody takes the readings any longer.
///
/// # Errors
/// Where no thread can be started.
pub fn start(manifests: Manifests, readings: Sender<Reading>, pulse: Pulse) -> io::Result<()> {
    thread::Builder::new().name("manifests".into()).spawn(move || run(manifests, &readings, &pulse)).map(drop)
}

fn run(mut manifests: Manifests, readings: &Sender<Reading>, pulse: &Pulse) {
    let (wake, woken) = mpsc::channel();
    let mut eyes = Eyes::new(&manifests, wake);
    let mut last_problems = None;
    loop {
        let started = Instant::now();
        let reading = manifests.read();
        let (restless, waiting) = (reading.restless, reading.waiting);
        let news = !reading.events.is_empty() || last_problems.as_ref() != Some(&reading.problems);
        last_problems = Some(reading.problems.clone());
        // What cannot be read, or does not parse, is as old as when it last could.
        if reading.problems.is_empty() {
            pulse.beat();
        }
        if news && readings.blocking_send(reading).is_err() {
            return;
        }
        manifests.save();
        eyes.follow();
        let patience = match (restless, eyes.told()) {
            (true, _) => LOOK_AGAIN,
            (false, true) if !waiting => LOOK_EVERY,
            (false, _) => LOOK_EVERY_UNTOLD,
        };
        let deadline = Instant::now() + patience;
        loop {
            if readings.is_closed() {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now()).min(LOOK_EVERY_UNTOLD);
            match woken.recv_timeout(left) {
                Ok(()) => break,
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => break,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(left),
            }
        }
        thread::sleep(GAP.saturating_sub(started.elapsed()));
        while woken.try_recv().is_ok() {}
    }
}

/// The operating system's watch over the roots.
struct Eyes {
    roots: Vec<PathBuf>,
    watcher: Option<RecommendedWatcher>,
    /// What is watched, by real path: where a link is turned to another folder, that one has to be watched instead.
    watched: BTreeSet<(PathBuf, bool)>,
}

impl Eyes {
    fn new(manifests: &Manifests, wake: mpsc::Sender<()>) -> Self {
        // Every event, an error such as an overflow too, means the same: look again. Reading also makes events
        // (opened, closed), which must not cause another reading.
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| !event.kind.is_access()) {
                // The other end is gone only when the thread ends.
                let _ = wake.send(());
            }
        });
        let watcher = watcher
            .map_err(|error| tracing::warn!(%error, "changes of files are not told by the system; looking each second"))
            .ok();
        let roots = manifests.roots().iter().map(|root| root.path.clone()).collect();
        Self { roots, watcher, watched: BTreeSet::new() }
    }

    fn told(&self) -> bool {
        self.watcher.is_some() && !self.watched.is_empty()
    }

    /// Watches what the roots are now.
    fn follow(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let mut wanted = BTreeSet::new();
        for root in &self.roots {
            // A root that is a link, or a file, changes in the folder that holds it.
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
            // It may be gone already.
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
                    tracing::warn!(path = %watch.0.display(), %error, "cannot be watched; looking each second");
                    self.watcher = None;
                    return;
                }
            }
        }
    }
}
