//! Sets of code points, as character classes have them.

use super::unicode;

/// The largest code point.
pub(super) const RUNE_MAX: u32 = 0x10_ffff;

/// A set of code points: sorted ranges that neither overlap nor touch.
///
/// Code points are plain numbers, not `char`s: RE2 lets classes contain surrogates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Class {
    ranges: Vec<(u32, u32)>,
}

impl Class {
    /// The set of all code points in any of the ranges, which may overlap and come in any order.
    pub(super) fn new(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match merged.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        Self { ranges: merged }
    }

    /// The set together with everything that differs from a member only by case.
    pub(super) fn folded(self) -> Self {
        let mut ranges = self.ranges.clone();
        unicode::push_case_variants(&self.ranges, &mut ranges);
        Self::new(ranges)
    }

    /// Everything that is not in the set.
    pub(super) fn negated(&self) -> Self {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        let mut next = 0;
        for (low, high) in &self.ranges {
            if next < *low {
                ranges.push((next, low - 1));
            }
            next = high + 1;
        }
        if next <= RUNE_MAX {
            ranges.push((next, RUNE_MAX));
        }
        Self { ranges }
    }

    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.ranges == [(0, RUNE_MAX)]
    }

    /// How many code points it has.
    pub(super) fn len(&self) -> u32 {
        self.ranges.iter().map(|(low, high)| high - low + 1).sum()
    }

    pub(super) fn contains(&self, rune: u32) -> bool {
        let after = self.ranges.partition_point(|(low, _)| *low <= rune);
        after.checked_sub(1).and_then(|index| self.ranges.get(index)).is_some_and(|(_, high)| rune <= *high)
    }

    /// Whether it has every ASCII letter in both cases or in none.
    pub(super) fn folds_ascii(&self) -> bool {
        (u32::from(b'a')..=u32::from(b'z')).all(|lower| self.contains(lower) == self.contains(lower - 0x20))
    }
}

/// The ranges of `\d`, `\s` and `\w`, by their letter.
pub(super) fn perl(letter: char) -> Option<&'static [(u32, u32)]> {
    match letter.to_ascii_lowercase() {
        'd' => Some(&[(0x30, 0x39)]),
        's' => Some(&[(0x09, 0x0a), (0x0c, 0x0d), (0x20, 0x20)]),
        'w' => Some(WORD),
        _ => None,
    }
}

/// The ranges of `[[:name:]]`.
pub(super) fn posix(name: &str) -> Option<&'static [(u32, u32)]> {
    Some(match name {
        "alnum" => &[(0x30, 0x39), (0x41, 0x5a), (0x61, 0x7a)],
        "alpha" => &[(0x41, 0x5a), (0x61, 0x7a)],
        "ascii" => &[(0x00, 0x7f)],
        "blank" => &[(0x09, 0x09), (0x20, 0x20)],
        "cntrl" => &[(0x00, 0x1f), (0x7f, 0x7f)],
        "digit" => &[(0x30, 0x39)],
        "graph" => &[(0x21, 0x7e)],
        "lower" => &[(0x61, 0x7a)],
        "print" => &[(0x20, 0x7e)],
        "punct" => &[(0x21, 0x2f), (0x3a, 0x40), (0x5b, 0x60), (0x7b, 0x7e)],
        "space" => &[(0x09, 0x0d), (0x20, 0x20)],
        "upper" => &[(0x41, 0x5a)],
        "word" => WORD,
        "xdigit" => &[(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)],
        _ => return None,
    })
}

const WORD: &[(u32, u32)] = &[(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_has_what_its_ranges_have(ranges in prop::collection::vec((0u32..60, 0u32..9), 0..8), rune in 0u32..80) {
            let ranges: Vec<_> = ranges.into_iter().map(|(low, length)| (low, low + length)).collect();
            let class = Class::new(ranges.clone());
            let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&rune));
            prop_assert_eq!(class.contains(rune), inside);
            prop_assert_eq!(class.negated().contains(rune), !inside);
            prop_assert_eq!(class.negated().negated(), class.clone());
            prop_assert!(class.ranges().windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        }
    }

    #[test]
    fn folding_adds_the_other_cases() {
        let class = Class::new(vec![(0x6b, 0x6b), (0xdf, 0xdf)]).folded();
        assert_eq!(class.ranges(), [(0x4b, 0x4b), (0x6b, 0x6b), (0xdf, 0xdf), (0x1e9e, 0x1e9e), (0x212a, 0x212a)]);
        assert!(Class::new(vec![(0x30, 0x39)]).folds_ascii());
        assert!(!Class::new(vec![(0x61, 0x7a)]).folds_ascii());
        assert!(Class::new(vec![(0x61, 0x7a)]).folded().folds_ascii());
    }
}
