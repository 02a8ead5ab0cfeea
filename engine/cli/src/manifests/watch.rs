//! Watch of the manifests: reads again after notifications of the operating system, and periodically.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use notify::event::{ModifyKind, RenameMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::Sender;

use super::tree::ChangedFiles;
use super::{ManifestReading, Manifests};
use crate::admin::input_metrics::Pulse;

/// Interval of searches with notifications of the operating system, which may miss changes (network file systems,
/// changed link targets, queue overflow).
pub const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The interval of searches with notifications is at least this multiple of the duration of a search, so that searches of
/// many thousands of files use little of a core.
const SEARCH_PAUSE: u32 = 500;
/// Longest interval of searches with notifications.
const LOOK_AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);
/// Interval of searches without notifications.
pub const LOOK_EVERY_WITHOUT_EVENTS: Duration = Duration::from_secs(1);
/// Pause before a file that was being written is read again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Minimum time between two readings: a burst of changes is read once.
const GAP: Duration = Duration::from_millis(10);

/// The reason for a reading before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The operating system reports a change, at these paths if they are known.
    Changed(Vec<PathBuf>),
    /// The operating system reports that files got these paths: they are complete, as no program writes at the path.
    Renamed(Vec<PathBuf>),
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
    // A change during the first reading is notified.
    eyes.follow();
    let (mut last_problems, mut requested) = (None, false);
    let (mut changes, mut searched) = (ChangedPaths::unknown(), (Instant::now(), Duration::ZERO));
    loop {
        let started = Instant::now();
        let changed = eyes.changed(&std::mem::take(&mut changes));
        let reading = manifests.read_with(&changed);
        if let Some(took) = reading.searched {
            searched = (Instant::now(), took);
        }
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
        let search_at = searched.0
            + match eyes.is_notified() {
                true => (searched.1 * SEARCH_PAUSE).clamp(LOOK_EVERY, LOOK_AGAIN_AFTER_MAX),
                false => LOOK_EVERY_WITHOUT_EVENTS,
            };
        let deadline = match (restless, waiting) {
            (true, _) => Instant::now() + LOOK_AGAIN,
            (false, true) => search_at.min(Instant::now() + LOOK_EVERY_WITHOUT_EVENTS),
            (false, false) => search_at,
        };
        loop {
            if readings.is_closed() {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now()).min(LOOK_EVERY_WITHOUT_EVENTS);
            match woken.recv_timeout(left) {
                Ok(wake) => {
                    requested |= changes.note(wake);
                    break;
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => break,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(left),
            }
        }
        thread::sleep(GAP.saturating_sub(started.elapsed()));
        while let Ok(wake) = woken.try_recv() {
            requested |= changes.note(wake);
        }
        changes.is_incomplete |= Instant::now() >= search_at;
    }
}

/// The paths of the changes since the last reading.
#[derive(Debug, Default)]
struct ChangedPaths {
    renamed: HashSet<PathBuf>,
    written: HashSet<PathBuf>,
    /// Whether there may be changes of other paths.
    is_incomplete: bool,
}

impl ChangedPaths {
    /// Any path may have changed.
    fn unknown() -> Self {
        Self { is_incomplete: true, ..Self::default() }
    }

    /// The paths of all changes.
    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.renamed.union(&self.written)
    }

    /// Returns whether a file was moved to its path, and not written there.
    fn is_complete(&self, path: &PathBuf) -> bool {
        self.renamed.contains(path) && !self.written.contains(path)
    }

    /// Records a reason to read; returns true if a user requested it.
    fn note(&mut self, wake: Wake) -> bool {
        match wake {
            Wake::Requested => {
                self.is_incomplete = true;
                return true;
            }
            Wake::Renamed(paths) => self.renamed.extend(paths),
            Wake::Changed(paths) => {
                self.is_incomplete |= paths.is_empty();
                self.written.extend(paths);
            }
        }
        false
    }
}

/// Returns the reason to read for an event of the operating system. Reading also causes events (opened, closed), which
/// must not trigger another one; an error, such as an overflow, must.
fn reason(event: notify::Result<notify::Event>) -> Option<Wake> {
    let Ok(event) = event else { return Some(Wake::Changed(Vec::new())) };
    match event.kind {
        EventKind::Access(_) => None,
        // The event for both paths repeats the one for the new path.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => None,
        EventKind::Modify(ModifyKind::Name(RenameMode::To)) => Some(Wake::Renamed(event.paths)),
        _ => Some(Wake::Changed(event.paths)),
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
        let watcher = notify::recommended_watcher(move |event| {
            if let Some(reason) = reason(event) {
                // The receiver is gone only when the thread ends.
                let _ = wake.send(reason);
            }
        });
        let watcher = watcher
            .map_err(|error| tracing::warn!(%error, "the system sends no events for changed files; files are checked each second"))
            .ok();
        let roots = manifests.roots().iter().map(|root| root.path.clone()).collect();
        Self { roots, watcher, watched: BTreeSet::new() }
    }

    /// Returns the changes, with paths in the form in which a search finds them, which begins with the path of a root.
    /// Only a search shows changes of other paths.
    fn changed(&mut self, changes: &ChangedPaths) -> ChangedFiles {
        self.forget_replaced(changes.paths());
        let (mut paths, mut complete, mut is_all) = (HashSet::new(), HashSet::new(), !changes.is_incomplete);
        let roots = if changes.paths().next().is_none() { Vec::new() } else { self.real_roots() };
        for path in changes.paths() {
            let below = roots.iter().filter_map(|(root, real)| Some(root.join(path.strip_prefix(real).ok()?)));
            let before = paths.len();
            for found in below {
                if changes.is_complete(path) {
                    complete.insert(found.clone());
                }
                paths.insert(found);
            }
            is_all &= paths.len() > before;
        }
        ChangedFiles { paths: is_all.then_some(paths), complete }
    }

    /// Ends the watch of folders that may have been replaced by others of the same path, which are then watched.
    fn forget_replaced<'a>(&mut self, changed: impl Iterator<Item = &'a PathBuf>) {
        let Some(watcher) = &mut self.watcher else { return };
        for path in changed {
            if self.watched.remove(&(path.clone(), true)) | self.watched.remove(&(path.clone(), false)) {
                // The path may already be gone.
                let _ = watcher.unwatch(path);
            }
        }
    }

    /// Returns the roots that exist, each with its real path: events have real paths.
    fn real_roots(&self) -> Vec<(&PathBuf, PathBuf)> {
        self.roots.iter().filter_map(|root| Some((root, fs::canonicalize(root).ok()?))).collect()
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use notify::event::{AccessKind, AccessMode, DataChange};

    use super::*;

    /// Returns the paths of complete files after these events.
    fn complete(events: &[(EventKind, &str)]) -> Vec<PathBuf> {
        let mut changes = ChangedPaths::default();
        for (kind, path) in events {
            let event = notify::Event::new(*kind).add_path(path.into());
            reason(Ok(event)).into_iter().for_each(|reason| assert!(!changes.note(reason)));
        }
        changes.paths().filter(|path| changes.is_complete(path)).cloned().collect()
    }

    /// Another folder at the path of a root is watched: the watch of the previous one ends.
    #[test]
    fn a_replaced_root_is_watched_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let roots = vec![super::super::Root { path: root.clone() }];
        let manifests =
            Manifests::new(roots, super::super::Incarnations::in_memory(), super::super::Readings::Repeated);
        let (wake, _woken) = super::wake();
        let mut eyes = Eyes::new(&manifests, wake);
        eyes.follow();
        let watched = eyes.watched.clone();
        assert!(watched.contains(&(root.clone(), true)));
        let written = |path: PathBuf| ChangedPaths { written: [path].into(), ..ChangedPaths::default() };
        assert_eq!(eyes.changed(&written(root.join("a.yaml"))).paths, Some([root.join("a.yaml")].into()));
        assert_eq!(eyes.watched, watched);
        eyes.changed(&written(root.clone()));
        assert!(!eyes.watched.contains(&(root, true)));
        eyes.follow();
        assert_eq!(eyes.watched, watched);
        assert_eq!(eyes.changed(&written("/elsewhere/a.yaml".into())).paths, None);
    }

    #[test]
    fn only_files_that_were_moved_to_their_path_are_complete() {
        let name = |mode| EventKind::Modify(ModifyKind::Name(mode));
        let data = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let moved = [(data, "t"), (closed, "t"), (name(RenameMode::From), "t"), (name(RenameMode::To), "a")];
        assert_eq!(complete(&moved), [PathBuf::from("a")]);
        assert_eq!(complete(&[(data, "a"), (closed, "a")]), Vec::<PathBuf>::new());
        assert_eq!(complete(&[(name(RenameMode::To), "a"), (data, "a")]), Vec::<PathBuf>::new());
        assert!(ChangedPaths::default().note(Wake::Requested));
        assert_eq!(reason(Ok(notify::Event::new(closed))), None);
        assert_eq!(reason(Err(notify::Error::generic("overflow"))), Some(Wake::Changed(Vec::new())));
    }
}
