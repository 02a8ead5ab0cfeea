//! Cache of results by content, so that the work is done once, however often an object is translated.
//!
//! A result, and the number of its steps, is a function of pattern and limits only: the cache changes the time of an
//! answer and nothing else.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Limits;
use super::encoding::Encoding;

/// Maximum size of one cache, in bytes of patterns and results; the least recently used entries are removed first.
pub(super) const MEMO_BYTES_MAX: usize = 16 << 20;
/// Minimum number of steps of a result that is cached.
const STEPS_MIN: usize = 1_000;
/// Approximate size of one result without its pattern, in bytes.
const ENTRY_BYTES: usize = 256;

/// Number of steps that were taken; the steps of a cached result count once.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Returns the number of steps that the checks of regexes have taken in this process. No decision depends on it.
pub fn steps_taken() -> u64 {
    TAKEN.load(Ordering::Relaxed)
}

/// Counts steps as taken.
pub(super) fn took(steps: usize) {
    TAKEN.fetch_add(u64::try_from(steps).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// A cache of results, each with the number of its steps.
pub(super) struct Memo<T>(Mutex<Option<Results<T>>>);

impl<T: Clone> Memo<T> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Returns the result for a pattern, cached or computed, with its steps. `compute` counts the steps that it takes.
    pub(super) fn get(
        &self,
        pattern: &str,
        limits: Limits,
        encoding: Encoding,
        compute: impl FnOnce() -> (T, usize),
    ) -> (T, usize) {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = lock().get_or_insert_default().find(pattern, limits, encoding) {
            return cached;
        }
        let computed = compute();
        if computed.1 >= STEPS_MIN {
            lock().get_or_insert_default().insert(pattern, limits, encoding, computed.clone());
        }
        computed
    }
}

/// Two generations: requested entries move to the younger one, which becomes the older one when it is full.
struct Results<T> {
    younger: HashMap<(Box<str>, u32, Encoding), (T, usize)>,
    older: HashMap<(Box<str>, u32, Encoding), (T, usize)>,
    /// Size of the younger generation, in bytes.
    bytes: usize,
}

impl<T> Default for Results<T> {
    fn default() -> Self {
        Self { younger: HashMap::new(), older: HashMap::new(), bytes: 0 }
    }
}

impl<T: Clone> Results<T> {
    fn find(&mut self, pattern: &str, limits: Limits, encoding: Encoding) -> Option<(T, usize)> {
        let key = (pattern.into(), limits.program_size, encoding);
        if let Some(cached) = self.younger.get(&key) {
            return Some(cached.clone());
        }
        let cached = self.older.remove(&key)?;
        self.insert(pattern, limits, encoding, cached.clone());
        Some(cached)
    }

    fn insert(&mut self, pattern: &str, limits: Limits, encoding: Encoding, computed: (T, usize)) {
        self.bytes += pattern.len() + ENTRY_BYTES;
        self.younger.insert((pattern.into(), limits.program_size, encoding), computed);
        if self.bytes > MEMO_BYTES_MAX / 2 {
            self.older = std::mem::take(&mut self.younger);
            self.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_costly_result_is_computed_once() {
        let (memo, limits) = (Memo::new(), Limits::default());
        let computed = |pattern: &str, steps| {
            let mut count = 0;
            for _ in 0..3 {
                let result = memo.get(pattern, limits, Encoding::Latin1, || {
                    count += 1;
                    ("result", steps)
                });
                assert_eq!(result, ("result", steps));
            }
            count
        };
        assert_eq!(computed("costly", STEPS_MIN), 1);
        assert_eq!(computed("cheap", STEPS_MIN - 1), 3);
    }

    #[test]
    fn results_are_bounded_and_those_in_use_stay() {
        let (mut results, limits) = (Results::default(), Limits::default());
        let computed = ("result", STEPS_MIN);
        results.insert("often", limits, Encoding::Latin1, computed);
        for number in 0..20_000 {
            results.insert(&format!("{number:04000}"), limits, Encoding::Latin1, computed);
            assert_eq!(results.find("often", limits, Encoding::Latin1), Some(computed), "{number}");
            let kept: usize = results.younger.keys().chain(results.older.keys()).map(|(text, ..)| text.len()).sum();
            assert!(kept <= MEMO_BYTES_MAX + 8192, "{kept}");
        }
        assert_eq!(results.find(&format!("{:04000}", 0), limits, Encoding::Latin1), None);
        assert_eq!(results.find("often", Limits { program_size: 1 }, Encoding::Latin1), None);
        assert_eq!(results.find("often", limits, Encoding::Utf8), None);
    }
}
