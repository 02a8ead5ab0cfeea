//! Search for interactions: parts that are accepted alone and refused together. The search finds the later part of a
//! pair that does not work together.
//!
//! Unchanged acknowledged parts come before changed ones, and among changed ones the older come first. The later part
//! is blamed, the other is the witness: when one of them is removed, the other is released. Each search takes log2 of
//! the number of parts as trials, twice.

use super::trials::Item;

/// Returns the parts in the order of the search, and the number of unchanged parts. Unchanged parts come first, then
/// the changed ones, the older before the younger.
pub(crate) fn in_order<T, A: Ord>(
    items: impl Iterator<Item = T>,
    changed: impl Fn(&T) -> bool,
    age: impl Fn(&T) -> A,
) -> (Vec<T>, usize) {
    let (mut newer, mut ordered): (Vec<T>, Vec<T>) = items.partition(changed);
    newer.sort_by_key(age);
    let unchanged = ordered.len();
    ordered.append(&mut newer);
    (ordered, unchanged)
}

/// The phase of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Search for the first changed part with which the prefix is refused.
    Culprit,
    /// Search for the earlier part together with which the culprit is refused.
    Witness { culprit: usize },
}

/// The result of a step.
#[derive(Clone, Debug)]
pub(crate) enum Found<T> {
    /// The set to be tried next.
    Try(Vec<T>),
    /// The later part is refused together with the earlier part; without an earlier part, together with unchanged
    /// parts.
    Blamed(Box<T>, Option<Box<T>>),
}

/// The search. Parts are in the order of their age, unchanged parts first.
#[derive(Clone, Debug)]
pub(crate) struct Interaction<T = Item> {
    items: Vec<T>,
    /// The length of a prefix that is accepted.
    low: usize,
    /// The length of a prefix that is refused.
    high: usize,
    phase: Phase,
}

impl<T: Clone> Interaction<T> {
    /// Starts a search among parts that are refused together, of which the first `unchanged` are acknowledged. Returns
    /// `None` if no part has changed: then no part can be blamed.
    pub(crate) fn new(items: Vec<T>, unchanged: usize) -> Option<Self> {
        let high = items.len();
        (unchanged < high).then_some(Self { items, low: unchanged, high, phase: Phase::Culprit })
    }

    /// Returns the next set to try, or the blamed part.
    pub(crate) fn next(&mut self) -> Option<Found<T>> {
        if self.high - self.low > 1 {
            return Some(Found::Try(self.trial()));
        }
        let last = self.high.checked_sub(1)?;
        match self.phase {
            Phase::Culprit if last == 0 => Some(Found::Blamed(Box::new(self.items.first()?.clone()), None)),
            Phase::Culprit => {
                self.phase = Phase::Witness { culprit: last };
                // The culprit alone is accepted; the culprit with all parts before it is refused.
                (self.low, self.high) = (0, last);
                self.next()
            }
            Phase::Witness { culprit } => {
                let (culprit, witness) = (self.items.get(culprit)?, self.items.get(last)?);
                Some(Found::Blamed(Box::new(culprit.clone()), Some(Box::new(witness.clone()))))
            }
        }
    }

    fn trial(&self) -> Vec<T> {
        let middle = self.middle();
        let mut items: Vec<T> = self.items.get(..middle).unwrap_or_default().to_vec();
        if let Phase::Witness { culprit } = self.phase {
            items.extend(self.items.get(culprit).cloned());
        }
        items
    }

    fn middle(&self) -> usize {
        self.low + (self.high - self.low) / 2
    }

    /// Records that the set was accepted.
    pub(crate) fn accepted(&mut self) {
        self.low = self.middle();
    }

    /// Records that the set was refused.
    pub(crate) fn refused(&mut self) {
        self.high = self.middle();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    /// Runs a search among `count` parts with the given pairs that are refused together. Returns the blamed part, the
    /// witness, and the number of trials.
    fn search(count: usize, unchanged: usize, pairs: &[(usize, usize)]) -> (usize, Option<usize>, u32) {
        let mut search = Interaction::new((0..count).collect(), unchanged).unwrap();
        let mut trials = 0;
        loop {
            match search.next().unwrap() {
                Found::Try(parts) => {
                    trials += 1;
                    let bad = pairs.iter().any(|(one, other)| parts.contains(one) && parts.contains(other));
                    if bad { search.refused() } else { search.accepted() }
                }
                Found::Blamed(culprit, witness) => return (*culprit, witness.map(|witness| *witness), trials),
            }
        }
    }

    /// Returns the bound of trials: two parts are searched, and each search takes 2 + log2 of the number of parts.
    fn bound(count: usize) -> u32 {
        2 * (2 + count.ilog2())
    }

    #[test]
    fn the_later_of_two_is_blamed_and_the_earlier_is_the_witness() {
        for count in [2, 3, 7, 8, 9, 64] {
            for later in 1..count {
                for earlier in 0..later {
                    let (culprit, witness, trials) = search(count, 1, &[(earlier, later)]);
                    assert_eq!((culprit, witness), (later, Some(earlier)), "of {count}");
                    assert!(trials <= bound(count), "{trials} trials for {count} parts");
                }
            }
        }
    }

    #[test]
    fn what_has_not_changed_is_never_blamed() {
        for later in 40..50 {
            let (culprit, witness, _) = search(50, 40, &[(7, later)]);
            assert_eq!((culprit, witness), (later, Some(7)));
        }
        assert!(Interaction::new(vec![1, 2, 3], 3).is_none(), "without a change no object is to blame");
    }

    #[test]
    fn of_several_pairs_each_is_found_within_its_bound() {
        let count = 10_000;
        let mut pairs: Vec<(usize, usize)> = (0..20).map(|i| (i * 37, 5_000 + i * 211)).collect();
        let mut blamed = Vec::new();
        while !pairs.is_empty() {
            let (culprit, witness, trials) = search(count, 5_000, &pairs);
            assert!(trials <= bound(count), "{trials} trials");
            let at = pairs.iter().position(|pair| *pair == (witness.unwrap(), culprit)).unwrap();
            // The blamed part is removed before the next search.
            pairs.remove(at);
            blamed.push(culprit);
        }
        assert!(blamed.is_sorted(), "the first of them comes first: {blamed:?}");
    }

    #[test]
    fn a_part_that_is_refused_alone_has_no_witness() {
        let mut search = Interaction::new(vec!['a'], 0).unwrap();
        assert!(matches!(search.next(), Some(Found::Blamed(culprit, None)) if *culprit == 'a'));
    }

    #[test]
    fn unchanged_parts_come_first_and_older_changed_ones_before_younger() {
        let parts = [("new", 9), ("old", 5), ("newer", 12), ("older", 1), ("newest", 30), ("edited", 3)];
        let changed = |part: &(&str, i32)| part.0.starts_with("new") || part.0 == "edited";
        let (order, unchanged) = in_order(parts.into_iter(), changed, |part| part.1);
        let names: Vec<&str> = order.into_iter().map(|part| part.0).collect();
        assert_eq!((names, unchanged), (vec!["old", "older", "edited", "new", "newer", "newest"], 2));
    }
}
