//! The regexes of one object, which share a limit of steps.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::encoding::Encoding;
use super::{Beginning, Limits, OBJECT_STEPS_MAX, Program, RegexFault, beginning};

/// The result of the check of a regex.
type CheckedRegex = Result<Program, RegexFault>;

/// The limits of the regexes of one object, and the remaining number of steps for the checks of all of them. Regexes
/// beyond the limit are refused, in the order in which the object is read, so that equal objects always get equal
/// verdicts.
#[derive(Debug)]
pub struct Regexes {
    limits: Limits,
    left: Cell<usize>,
    /// The result for each regex and its limits, so that a repeated regex counts once.
    known: RefCell<HashMap<RegexKey, CheckedRegex>>,
}

/// A regex with its limits, in the encoding in which it is compiled.
type RegexKey = (Box<str>, Limits, Encoding);

impl Regexes {
    /// Returns the state for an object before its first check. One state is shared by all fields of an object: a field
    /// with a state of its own would have a separate limit.
    pub fn of_object(limits: Limits) -> Self {
        Self { limits, left: Cell::new(OBJECT_STEPS_MAX), known: RefCell::default() }
    }

    /// Returns the number of steps that were spent.
    pub fn spent(&self) -> usize {
        OBJECT_STEPS_MAX - self.left.get()
    }

    /// Checks that Envoy accepts a regex: the regex is not empty, RE2 can parse it, and its program is not too large.
    pub fn check(&self, pattern: &str) -> Result<Program, RegexFault> {
        self.verdict(pattern, self.limits, Encoding::Latin1)
    }

    /// Checks a regex like [`Self::check`] where Envoy has other limits and reads UTF-8; the steps count together.
    pub fn check_utf8(&self, pattern: &str, limits: Limits) -> Result<Program, RegexFault> {
        self.verdict(pattern, limits, Encoding::Utf8)
    }

    fn verdict(&self, pattern: &str, limits: Limits, encoding: Encoding) -> Result<Program, RegexFault> {
        let key = (pattern.into(), limits, encoding);
        if let Some(verdict) = self.known.borrow().get(&key) {
            return verdict.clone();
        }
        let verdict = match self.left.get() {
            0 => Err(RegexFault::Together),
            _ => {
                let (verdict, steps) = super::counted(pattern, limits, encoding);
                self.spend(steps);
                verdict
            }
        };
        self.known.borrow_mut().insert(key, verdict.clone());
        verdict
    }

    /// Returns the longest readable beginning of a regex, given that Envoy matches the whole text, or `None` where
    /// nothing is known about the texts.
    ///
    /// Anything may follow the beginning. So an alternative must not be cut off, nor a group that a later operator
    /// makes optional; in that case the beginning ends before that group. As for
    /// [`literal_prefix`](super::literal_prefix), groups and classes are as they are written, and an open one extends
    /// to the end.
    pub fn beginning(&self, pattern: &str) -> Option<Beginning> {
        self.found(|| beginning::counted(pattern, self.limits))
    }

    /// As [`beginning`](Self::beginning), without the groups that are open at its end: their content may be incomplete.
    pub fn beginning_without_open_groups(&self, pattern: &str) -> Option<Beginning> {
        self.found(|| beginning::counted_without_open_groups(pattern, self.limits))
    }

    fn found(&self, search: impl Fn() -> (Option<Beginning>, usize)) -> Option<Beginning> {
        if self.left.get() == 0 {
            return None;
        }
        let (found, steps) = search();
        self.spend(steps);
        found
    }

    fn spend(&self, steps: usize) {
        self.left.set(self.left.get().saturating_sub(steps));
    }
}
