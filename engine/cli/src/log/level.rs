//! Level of the log at run time: another level for a limited time, then the level of the start again.
//!
//! The level is of this process only. It is lost at a restart, so that a forgotten level does not fill a disk.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

use super::directives;

/// Maximum number of bytes of a level with its directives.
pub(crate) const LOG_DIRECTIVES_BYTES_MAX: usize = 1024;
/// Maximum time for which another level applies.
pub(crate) const LOG_LEVEL_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Replaces the filter of the log.
pub(super) type SetFilter = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// The level of the log of this process. Clones share it.
#[derive(Clone)]
pub(crate) struct RuntimeLogLevel(Arc<LevelState>);

struct LevelState {
    set: SetFilter,
    /// The level of the start.
    first: String,
    current: Mutex<TemporaryLevel>,
}

/// The level that applies instead of that of the start.
#[derive(Default)]
struct TemporaryLevel {
    /// The level, and when it ends.
    set: Option<(String, Instant)>,
    /// The number of changes: the end of an earlier level changes nothing.
    changes: u64,
}

/// The level for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogLevelView {
    /// The level that applies.
    pub(crate) level: String,
    /// Seconds until the level of the start applies again; absent if it applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seconds_left: Option<u64>,
    /// The level of the start (`--log-level`).
    pub(crate) started_with: String,
}

impl RuntimeLogLevel {
    pub(super) fn new(set: SetFilter, first: &str) -> Self {
        Self(Arc::new(LevelState { set, first: first.to_owned(), current: Mutex::default() }))
    }

    /// A level without a log, for pages in tests.
    #[cfg(test)]
    pub(crate) fn without_log() -> Self {
        Self::new(Box::new(|_| Ok(())), "info")
    }

    fn current(&self) -> MutexGuard<'_, TemporaryLevel> {
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a level for a time; a later call replaces both. Needs a running tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the directives do not parse, or there is no log.
    pub(crate) fn set(&self, level: &str, time: Duration) -> Result<(), String> {
        let filter = filter(level)?;
        // Before the change: the new level may not have this line.
        tracing::warn!(to = level, seconds = time.as_secs(), then = self.0.first, "the level of the log changes");
        let changes = self.apply(level, filter, time)?;
        let this = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            this.end(Some(changes));
        });
        Ok(())
    }

    /// Applies a level; returns its number.
    fn apply(&self, level: &str, filter: EnvFilter, time: Duration) -> Result<u64, String> {
        let mut current = self.current();
        (self.0.set)(filter)?;
        current.changes += 1;
        current.set = Some((level.to_owned(), Instant::now() + time));
        Ok(current.changes)
    }

    /// Applies the level of the start again.
    pub(crate) fn reset(&self) {
        self.end(None);
    }

    /// Ends the current level, or the one of this number only.
    fn end(&self, of: Option<u64>) {
        let mut current = self.current();
        if current.set.is_none() || of.is_some_and(|of| of != current.changes) {
            return;
        }
        current.set = None;
        // The directives of the start have been parsed before.
        let restored = filter(&self.0.first).and_then(|filter| (self.0.set)(filter));
        drop(current);
        tracing::warn!(to = self.0.first, error = restored.err(), "the level of the log is that of the start again");
    }

    /// The level that applies.
    pub(crate) fn view(&self) -> LogLevelView {
        let current = self.current();
        let now = Instant::now();
        let left = |until: Instant| until.saturating_duration_since(now).as_secs();
        let (level, seconds_left) = match &current.set {
            Some((level, until)) => (level.clone(), Some(left(*until))),
            None => (self.0.first.clone(), None),
        };
        LogLevelView { level, seconds_left, started_with: self.0.first.clone() }
    }
}

fn filter(level: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(directives(level)).map_err(|error| error.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    /// A level with the filters that were set.
    fn recorded() -> (RuntimeLogLevel, Arc<Mutex<Vec<String>>>) {
        let set = Arc::new(Mutex::new(Vec::new()));
        let filters = set.clone();
        let record = move |filter: EnvFilter| {
            filters.lock().unwrap().push(filter.to_string());
            Ok(())
        };
        (RuntimeLogLevel::new(Box::new(record), "warn"), set)
    }

    #[test]
    fn a_level_ends_and_the_end_of_an_earlier_one_changes_nothing() {
        let (level, set) = recorded();
        let earlier = level.apply("debug", filter("debug").unwrap(), Duration::from_secs(600)).unwrap();
        let later =
            level.apply("holdfast_xds=trace", filter("holdfast_xds=trace").unwrap(), Duration::from_secs(600)).unwrap();
        level.end(Some(earlier));
        let view = level.view();
        assert_eq!((&*view.level, &*view.started_with), ("holdfast_xds=trace", "warn"));
        assert!(view.seconds_left.is_some_and(|left| left > 0 && left <= 600), "{view:?}");
        level.end(Some(later));
        let view = level.view();
        assert_eq!((&*view.level, view.seconds_left), ("warn", None));
        let set = set.lock().unwrap();
        let levels = ["debug", "holdfast_xds=trace", "warn"];
        assert_eq!(set.len(), levels.len(), "{set:?}");
        assert!(set.iter().zip(levels).all(|(set, level)| set.contains(level)), "{set:?}");
    }

    #[test]
    fn a_reset_applies_the_level_of_the_start_once() {
        let (level, set) = recorded();
        level.reset();
        let debug = level.apply("debug", filter("debug").unwrap(), Duration::from_secs(600)).unwrap();
        level.reset();
        level.end(Some(debug));
        assert_eq!((level.view().seconds_left, set.lock().unwrap().len()), (None, 2));
    }

    #[tokio::test]
    async fn a_level_ends_by_itself() {
        let (level, set) = recorded();
        level.set("debug", Duration::from_millis(10)).unwrap();
        while level.view().seconds_left.is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(set.lock().unwrap().last().is_some_and(|last| last.contains("warn")));
    }
}
