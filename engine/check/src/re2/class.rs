//! Sets of bytes, for character classes.

/// A set of bytes. RE2 in Envoy reads patterns and texts as Latin-1: a byte is a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ByteClass([u128; 2]);

impl ByteClass {
    /// Returns the set of the bytes of all these ranges.
    pub(super) fn new(ranges: &[(u8, u8)]) -> Self {
        let mut class = Self::default();
        for (low, high) in ranges {
            (*low..=*high).for_each(|byte| class.insert(byte));
        }
        class
    }

    pub(super) fn insert(&mut self, byte: u8) {
        let [low, high] = &mut self.0;
        let half = if byte < 128 { low } else { high };
        *half |= 1 << (byte & 127);
    }

    pub(super) fn contains(&self, byte: u8) -> bool {
        let [low, high] = self.0;
        let half = if byte < 128 { low } else { high };
        half >> (byte & 127) & 1 == 1
    }

    /// Returns the union of two sets.
    pub(super) fn union(self, other: Self) -> Self {
        let ([low, high], [other_low, other_high]) = (self.0, other.0);
        Self([low | other_low, high | other_high])
    }

    /// Returns the complement of the set.
    pub(super) fn negated(self) -> Self {
        let [low, high] = self.0;
        Self([!low, !high])
    }

    /// Returns the set with every ASCII letter in both cases.
    pub(super) fn folded(self) -> Self {
        let mut folded = self;
        for byte in (b'A'..=b'Z').chain(b'a'..=b'z').filter(|byte| self.contains(*byte)) {
            folded.insert(byte ^ 0x20);
        }
        folded
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0 == [0, 0]
    }

    /// Returns the number of bytes in the set.
    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(|half| half.count_ones()).sum()
    }

    /// Returns whether every ASCII letter is in the set in both cases or in none.
    pub(super) fn folds_ascii(&self) -> bool {
        (b'a'..=b'z').all(|lower| self.contains(lower) == self.contains(lower ^ 0x20))
    }

    /// Returns the bytes as the fewest ranges, in order.
    pub(super) fn ranges(&self) -> Vec<(u8, u8)> {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for byte in (0..=255).filter(|byte| self.contains(*byte)) {
            match ranges.last_mut() {
                Some((_, high)) if *high == byte - 1 => *high = byte,
                _ => ranges.push((byte, byte)),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_has_what_its_ranges_have(ranges in prop::collection::vec(any::<(u8, u8)>(), 0..8), byte: u8) {
            let class = ByteClass::new(&ranges);
            let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&byte));
            prop_assert_eq!(class.contains(byte), inside);
            prop_assert_eq!(class.negated().contains(byte), !inside);
            prop_assert_eq!(ByteClass::new(&class.ranges()), class);
            prop_assert!(class.ranges().windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        }
    }

    #[test]
    fn folding_is_for_ascii_letters_only() {
        assert_eq!(
            ByteClass::new(&[(b'k', b'k'), (0xe9, 0xe9), (b'0', b'0')]).folded().ranges(),
            [(b'0', b'0'), (b'K', b'K'), (b'k', b'k'), (0xe9, 0xe9)]
        );
        assert!(ByteClass::new(&[(b'0', b'9')]).folds_ascii());
        assert!(!ByteClass::new(&[(b'a', b'z')]).folds_ascii());
        assert!(ByteClass::new(&[(b'a', b'z')]).folded().folds_ascii());
    }
}
