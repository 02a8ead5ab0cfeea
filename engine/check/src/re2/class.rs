//! Sets of characters, for character classes.

use std::ops::RangeInclusive;

use super::encoding::Encoding;
use super::fault::RegexFault;
use super::tree::Flags;
use super::unicode::{self, RuneRange};
use crate::meter::Meter;

/// Number of ranges that are added to a class in one step.
const RANGES_PER_STEP: usize = 32;

/// `A` to `Z`.
pub(super) const ASCII_UPPERCASE: RangeInclusive<u32> = 0x41..=0x5a;

/// A set of characters: ranges in order, with gaps between them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RuneClass(Vec<RuneRange>);

impl RuneClass {
    /// Returns the set of the characters of all these ranges.
    pub(super) fn new(ranges: impl IntoIterator<Item = RuneRange>) -> Self {
        let mut ranges: Vec<RuneRange> = ranges.into_iter().collect();
        ranges.sort_unstable();
        let mut merged: Vec<RuneRange> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match merged.last_mut() {
                Some((_, end)) if low <= end.saturating_add(1) => *end = high.max(*end),
                _ => merged.push((low, high)),
            }
        }
        Self(merged)
    }

    /// Returns the set of one character.
    pub(super) fn rune(rune: u32) -> Self {
        Self(vec![(rune, rune)])
    }

    /// Returns the union of sets.
    pub(super) fn union(sets: impl IntoIterator<Item = Self>) -> Self {
        Self::new(sets.into_iter().flat_map(|set| set.0))
    }

    pub(super) fn contains(&self, rune: u32) -> bool {
        let after = self.0.partition_point(|(low, _)| *low <= rune);
        after.checked_sub(1).and_then(|last| self.0.get(last)).is_some_and(|(_, high)| rune <= *high)
    }

    /// Returns the complement of the set.
    pub(super) fn negated(&self, encoding: Encoding) -> Self {
        let mut ranges = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for (low, high) in &self.0 {
            if *low > next {
                ranges.push((next, *low - 1));
            }
            next = high.saturating_add(1);
        }
        if next <= encoding.rune_max() {
            ranges.push((next, encoding.rune_max()));
        }
        Self(ranges)
    }

    /// Returns the set with every character in all its cases.
    pub(super) fn folded(self, encoding: Encoding) -> Self {
        let within = |range: &RuneRange| match encoding {
            Encoding::Utf8 => *range,
            Encoding::Latin1 => (range.0, range.1.min(0x7f)),
        };
        let cases = self.0.iter().map(within).flat_map(unicode::cases_within);
        let cases = cases.flatten().filter(|rune| **rune <= encoding.rune_max()).map(|rune| (*rune, *rune));
        Self::new(cases.chain(self.0.iter().copied()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of characters in the set.
    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(|(low, high)| high - low + 1).sum()
    }

    /// Returns whether every ASCII letter is in the set in both cases or in none.
    pub(super) fn folds_ascii(&self) -> bool {
        ASCII_UPPERCASE.into_iter().all(|upper| self.contains(upper) == self.contains(upper ^ 0x20))
    }

    /// Returns the ranges, in order.
    pub(super) fn ranges(&self) -> &[RuneRange] {
        &self.0
    }
}

/// The members of a class while it is parsed.
pub(super) struct ClassBuilder<'m> {
    fold: bool,
    pub(super) encoding: Encoding,
    members: Vec<RuneRange>,
    meter: &'m mut Meter,
}

impl<'m> ClassBuilder<'m> {
    pub(super) fn new(flags: Flags, encoding: Encoding, meter: &'m mut Meter) -> Self {
        Self { fold: flags.has(Flags::FOLD), encoding, members: Vec::new(), meter }
    }

    /// Adds a set, or its complement; the complement is computed after case folding.
    pub(super) fn add(&mut self, members: RuneClass, negated: bool) -> Result<(), RegexFault> {
        let members = if self.fold { members.folded(self.encoding) } else { members };
        let members = if negated { members.negated(self.encoding) } else { members };
        self.meter.spend(members.0.len() / RANGES_PER_STEP)?;
        self.members.extend(members.0);
        Ok(())
    }

    /// Returns the class.
    pub(super) fn built(self) -> RuneClass {
        RuneClass::new(self.members)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_has_what_its_ranges_have(ranges in prop::collection::vec((0..400_u32, 0..40_u32), 0..8), rune in 0..450_u32) {
            let ranges: Vec<RuneRange> = ranges.into_iter().map(|(low, more)| (low, low + more)).collect();
            let class = RuneClass::new(ranges.clone());
            let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&rune));
            prop_assert_eq!(class.contains(rune), inside);
            prop_assert_eq!(class.negated(Encoding::Utf8).contains(rune), !inside);
            prop_assert_eq!(class.negated(Encoding::Utf8).negated(Encoding::Utf8), class.clone());
            prop_assert_eq!(class.negated(Encoding::Utf8).len() + class.len(), 0x11_0000);
            prop_assert!(class.ranges().windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        }
    }

    fn folded(ranges: &[RuneRange], encoding: Encoding) -> Vec<RuneRange> {
        RuneClass::new(ranges.iter().copied()).folded(encoding).ranges().to_vec()
    }

    #[test]
    fn folding_is_for_ascii_letters_only_or_for_all() {
        let some = [(0x6b, 0x6b), (0xe9, 0xe9), (0x30, 0x30)];
        assert_eq!(folded(&some, Encoding::Latin1), [(0x30, 0x30), (0x4b, 0x4b), (0x6b, 0x6b), (0xe9, 0xe9)]);
        let all = [(0x30, 0x30), (0x4b, 0x4b), (0x6b, 0x6b), (0xc9, 0xc9), (0xe9, 0xe9), (0x212a, 0x212a)];
        assert_eq!(folded(&some, Encoding::Utf8), all);
        // A character of Latin-1 has a case beyond it.
        assert_eq!(folded(&[(0xff, 0xff)], Encoding::Utf8), [(0xff, 0xff), (0x178, 0x178)]);
        let class = RuneClass::new([(0x61, 0x7a)]);
        assert!(RuneClass::new([(0x30, 0x39)]).folds_ascii());
        assert!(!class.folds_ascii());
        assert!(class.folded(Encoding::Latin1).folds_ascii());
    }
}
