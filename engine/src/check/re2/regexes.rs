//! The regexes of one object, which together may take so many steps.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::{Beginning, Limits, OBJECT_STEPS_MAX, Program, RegexFault, beginning};

/// The result of the check of a regex.
type Verdict = Result<Program, RegexFault>;

/// The limits of one object's regexes, and what is left of the steps that checking all of them may take. What is beyond
/// is refused, in the order in which the object is read, so that the same object always gets the same verdicts.
#[derive(Debug)]
pub struct Regexes {
    limits: Limits,
    left: Cell<usize>,
    /// The result for each regex and its limits, so that a repeated regex counts once.
    known: RefCell<HashMap<(Box<str>, Limits), Verdict>>,
}

impl Regexes {
    /// Those of an object of which none was checked yet. There is one of these for all fields of an object: a field with
    /// one of its own would not be limited together with the others.
    pub fn of_object(limits: Limits) -> Self {
        Self { limits, left: Cell::new(OBJECT_STEPS_MAX), known: RefCell::default() }
    }

    /// The steps that were spent.
    pub fn spent(&self) -> usize {
        OBJECT_STEPS_MAX - self.left.get()
    }

    /// Checks that Envoy takes a regex: it is not empty, RE2 can read it, and its program is not too large.
    pub fn check(&self, pattern: &str) -> Result<Program, RegexFault> {
        self.check_within(pattern, self.limits)
    }

    /// The same where Envoy has other limits, out of the same steps.
    pub fn check_within(&self, pattern: &str, limits: Limits) -> Result<Program, RegexFault> {
        let key = (pattern.into(), limits);
        if let Some(verdict) = self.known.borrow().get(&key) {
            return verdict.clone();
        }
        let verdict = match self.left.get() {
            0 => Err(RegexFault::Together),
            _ => {
                let (verdict, steps) = super::counted(pattern, limits);
                self.spend(steps);
                verdict
            }
        };
        self.known.borrow_mut().insert(key, verdict.clone());
        verdict
    }

    /// The longest beginning of a regex that can be read, given that Envoy matches the whole text. `None` where nothing
    /// is known of the texts.
    ///
    /// What follows it may be anything. So an alternative must not be cut off, nor a group that a later operator makes
    /// optional; then the beginning ends before that group. As for [`literal_prefix`](super::literal_prefix), groups
    /// and classes are as they are written, and an open one reaches to the end.
    pub fn beginning(&self, pattern: &str) -> Option<Beginning> {
        if self.left.get() == 0 {
            return None;
        }
        let (found, steps) = beginning::counted(pattern, self.limits);
        self.spend(steps);
        found
    }

    fn spend(&self, steps: usize) {
        self.left.set(self.left.get().saturating_sub(steps));
    }
}
