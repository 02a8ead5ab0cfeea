//! Counter of the work of checks, so that its limit is equal on every machine.

use std::cell::Cell;

/// Maximum number of steps for each byte of a text (and one byte more) in a check with linear work. A check that takes
/// more steps is ended, and the text is refused.
pub const STEPS_PER_BYTE_MAX: usize = 16;

/// The steps of one check, with their limit. A step is a character that is read, a node or an instruction that is made
/// or moved, or a position that is visited.
#[derive(Debug)]
pub struct Meter {
    spent: Cell<usize>,
    most: usize,
}

/// Error of a check that takes too many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("checking it takes too many steps; use a shorter or simpler one")]
pub struct OutOfSteps;

impl Meter {
    /// Returns a meter with this number of steps as the limit.
    pub const fn new(most: usize) -> Self {
        Self { spent: Cell::new(0), most }
    }

    /// Returns a meter for a check with work that is linear in the length of the text.
    pub fn linear(text: &str) -> Self {
        Self::new(text.len().saturating_add(1).saturating_mul(STEPS_PER_BYTE_MAX))
    }

    /// Counts a number of steps; fails once the limit is exceeded.
    pub fn spend(&self, steps: usize) -> Result<(), OutOfSteps> {
        self.spent.set(self.spent.get().saturating_add(steps));
        if self.spent.get() > self.most { Err(OutOfSteps) } else { Ok(()) }
    }

    /// Returns the number of steps so far.
    pub fn spent(&self) -> usize {
        self.spent.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_bound_fails_and_goes_on_failing() {
        let meter = Meter::new(3);
        assert_eq!([2, 1, 1, 0].map(|steps| meter.spend(steps).is_ok()), [true, true, false, false]);
        assert_eq!(meter.spent(), 4);
        assert_eq!(meter.spend(usize::MAX), Err(OutOfSteps));
        assert_eq!(Meter::linear("ab").most, 48);
    }
}
