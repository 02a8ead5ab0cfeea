//! Work that is counted, so that its bound holds on every machine.

use std::cell::Cell;

/// Most steps for each byte of a text (and one byte more) in a check of work that is linear in the length of the text.
/// A check that takes more is ended, and the text is refused.
pub const STEPS_PER_BYTE_MAX: usize = 16;

/// The steps of one check, and how many of them there may be. A step is a character that is read, a node or an
/// instruction that is made or moved, or a place that is visited.
#[derive(Debug)]
pub struct Meter {
    spent: Cell<usize>,
    most: usize,
}

/// The steps of a check were too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("checking it takes too many steps; use a shorter or simpler one")]
pub struct OutOfSteps;

impl Meter {
    /// For so many steps at most.
    pub const fn new(most: usize) -> Self {
        Self { spent: Cell::new(0), most }
    }

    /// For a check of work that is linear in the length of the text.
    pub fn linear(text: &str) -> Self {
        Self::new(text.len().saturating_add(1).saturating_mul(STEPS_PER_BYTE_MAX))
    }

    /// Counts so many steps more; fails once they are too many.
    pub fn spend(&self, steps: usize) -> Result<(), OutOfSteps> {
        self.spent.set(self.spent.get().saturating_add(steps));
        if self.spent.get() > self.most { Err(OutOfSteps) } else { Ok(()) }
    }

    /// The steps so far.
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
