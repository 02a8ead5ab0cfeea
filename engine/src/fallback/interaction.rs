//! Parts that are taken alone and refused together: the search for the later of two that do not go together.
//!
//! Unchanged acknowledged parts come before changed ones, and among changed ones the older first. The later is blamed,
//! the other is the witness: where one of them is gone, the other is released. Each search takes log2 of their number
//! of trials, twice.

use super::trials::Item;

/// What the search is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Which changed part is the first with which the prefix is refused.
    Culprit,
    /// Which earlier part it is refused together with.
    Witness { culprit: usize },
}

/// What was found.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// Try this set next.
    Try(Vec<Item>),
    /// The later is refused together with the earlier; without an earlier one, together with what does not change.
    Blamed(Box<Item>, Option<Box<Item>>),
}

/// The search. Parts are in the order of their age, those that did not change first.
#[derive(Clone, Debug)]
pub(crate) struct Interaction {
    items: Vec<Item>,
    /// A prefix of this length is taken.
    low: usize,
    /// A prefix of this length is refused.
    high: usize,
    phase: Phase,
}

impl Interaction {
    /// Begins with parts that are refused together, of which the first `unchanged` are acknowledged. None where nothing
    /// has changed: then nobody can be blamed.
    pub(crate) fn new(items: Vec<Item>, unchanged: usize) -> Option<Self> {
        let high = items.len();
        (unchanged < high).then_some(Self { items, low: unchanged, high, phase: Phase::Culprit })
    }

    /// What to try, or who is blamed.
    pub(crate) fn next(&mut self) -> Option<Found> {
        if self.high - self.low > 1 {
            return Some(Found::Try(self.trial()));
        }
        let last = self.high.checked_sub(1)?;
        match self.phase {
            Phase::Culprit if last == 0 => Some(Found::Blamed(Box::new(self.items.first()?.clone()), None)),
            Phase::Culprit => {
                self.phase = Phase::Witness { culprit: last };
                // The culprit alone is taken, the culprit with all that is before it is not.
                (self.low, self.high) = (0, last);
                self.next()
            }
            Phase::Witness { culprit } => {
                let (culprit, witness) = (self.items.get(culprit)?, self.items.get(last)?);
                Some(Found::Blamed(Box::new(culprit.clone()), Some(Box::new(witness.clone()))))
            }
        }
    }

    fn trial(&self) -> Vec<Item> {
        let middle = self.middle();
        let mut items: Vec<Item> = self.items.get(..middle).unwrap_or_default().to_vec();
        if let Phase::Witness { culprit } = self.phase {
            items.extend(self.items.get(culprit).cloned());
        }
        items
    }

    fn middle(&self) -> usize {
        self.low + (self.high - self.low) / 2
    }

    /// The set was taken.
    pub(crate) fn accepted(&mut self) {
        self.low = self.middle();
    }

    /// The set was refused.
    pub(crate) fn refused(&mut self) {
        self.high = self.middle();
    }
}
