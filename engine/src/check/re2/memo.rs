//! Verdicts that are kept by content, so that work is done once however often an object is translated.
//!
//! A verdict is a function of pattern and limits alone, and so is the number of its steps: what is kept here changes
//! how long an answer takes and nothing else.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Limits, Program, RegexFault};

/// Bytes of patterns and verdicts that are kept; those that were not asked for the longest go first.
pub(super) const MEMO_BYTES_MAX: usize = 16 << 20;
/// What is judged in fewer steps is judged again.
const STEPS_MIN: usize = 1_000;
/// What one verdict takes beside its pattern, roughly.
const ENTRY_BYTES: usize = 256;

/// A verdict and the steps that it took.
pub(super) type Judged = (Result<Program, RegexFault>, usize);

static VERDICTS: Mutex<Option<Verdicts>> = Mutex::new(None);

/// Steps that were taken: those of verdicts that were kept count once.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Steps that the checks of regexes have taken in this process. It decides nothing.
pub fn steps_taken() -> u64 {
    TAKEN.load(Ordering::Relaxed)
}

/// So many were taken.
pub(super) fn took(steps: usize) {
    TAKEN.fetch_add(u64::try_from(steps).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Two generations: what is asked for is in the younger one, which becomes the older one when it is full.
#[derive(Default)]
struct Verdicts {
    younger: HashMap<(Box<str>, u32), Judged>,
    older: HashMap<(Box<str>, u32), Judged>,
    /// Bytes of the younger one.
    bytes: usize,
}

impl Verdicts {
    fn find(&mut self, pattern: &str, limits: Limits) -> Option<Judged> {
        let key = (pattern.into(), limits.program_size);
        if let Some(judged) = self.younger.get(&key) {
            return Some(judged.clone());
        }
        let judged = self.older.remove(&key)?;
        self.keep(pattern, limits, judged.clone());
        Some(judged)
    }

    fn keep(&mut self, pattern: &str, limits: Limits, judged: Judged) {
        self.bytes += pattern.len() + ENTRY_BYTES;
        self.younger.insert((pattern.into(), limits.program_size), judged);
        if self.bytes > MEMO_BYTES_MAX / 2 {
            self.older = std::mem::take(&mut self.younger);
            self.bytes = 0;
        }
    }
}

/// What `judge` says of a pattern, now or earlier.
pub(super) fn judged(pattern: &str, limits: Limits, judge: impl FnOnce() -> Judged) -> Judged {
    let lock = || VERDICTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(judged) = lock().get_or_insert_default().find(pattern, limits) {
        return judged;
    }
    let judged = judge();
    took(judged.1);
    if judged.1 >= STEPS_MIN {
        lock().get_or_insert_default().keep(pattern, limits, judged.clone());
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_what_is_asked_for_stays() {
        let (mut verdicts, limits) = (Verdicts::default(), Limits::default());
        let judged: Judged = (Err(RegexFault::Empty), STEPS_MIN);
        verdicts.keep("often", limits, judged.clone());
        for number in 0..20_000 {
            verdicts.keep(&format!("{number:04000}"), limits, judged.clone());
            assert_eq!(verdicts.find("often", limits), Some(judged.clone()), "{number}");
            let kept: usize = verdicts.younger.keys().chain(verdicts.older.keys()).map(|(text, _)| text.len()).sum();
            assert!(kept <= MEMO_BYTES_MAX + 8192, "{kept}");
        }
        assert_eq!(verdicts.find(&format!("{:04000}", 0), limits), None);
        assert_eq!(verdicts.find("often", Limits { program_size: 1 }), None);
    }
}
