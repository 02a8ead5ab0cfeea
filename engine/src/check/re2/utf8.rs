//! Ranges of code points as sequences of byte ranges.

use super::class::RUNE_MAX;

/// A part of a range of code points, in UTF-8.
pub(super) enum Sequence<'a> {
    /// Code points of one byte.
    Ascii(u8, u8),
    /// Every code point of more than one byte.
    AllOthers,
    /// Code points whose bytes lie in these ranges, one after the other.
    Bytes(&'a [(u8, u8)]),
}

/// The largest code points of one, two and three bytes.
const LENGTH_MAX: [u32; 3] = [0x7f, 0x7ff, 0xffff];

/// Splits a range into parts that are sequences of byte ranges, in order.
pub(super) fn split<E>(low: u32, high: u32, emit: &mut impl FnMut(Sequence<'_>) -> Result<(), E>) -> Result<(), E> {
    if low > high {
        return Ok(());
    }
    if (low, high) == (0x80, RUNE_MAX) {
        return emit(Sequence::AllOthers);
    }
    for longest in LENGTH_MAX {
        if low <= longest && longest < high {
            split(low, longest, emit)?;
            return split(longest + 1, high, emit);
        }
    }
    if let (Ok(low @ 0..=0x7f), Ok(high)) = (u8::try_from(low), u8::try_from(high)) {
        return emit(Sequence::Ascii(low, high));
    }
    // Parts that agree on all but their last bytes, where those go through everything.
    for bits in [6, 12, 18] {
        let mask = (1u32 << bits) - 1;
        if low & !mask != high & !mask {
            if low & mask != 0 {
                split(low, low | mask, emit)?;
                return split((low | mask) + 1, high, emit);
            }
            if high & mask != mask {
                split(low, (high & !mask) - 1, emit)?;
                return split(high & !mask, high, emit);
            }
        }
    }
    let (low, length) = encode(low);
    let (high, _) = encode(high);
    let mut ranges = [(0, 0); 4];
    for (range, (low, high)) in ranges.iter_mut().zip(low.into_iter().zip(high)) {
        *range = (low, high);
    }
    emit(Sequence::Bytes(ranges.get(..length).unwrap_or_default()))
}

/// The bytes of a code point and how many they are; surrogates are encoded like others.
pub(super) fn encode(rune: u32) -> ([u8; 4], usize) {
    // Every part is masked to its byte.
    let tail = |shift: u32| 0x80 | (rune >> shift & 0x3f) as u8;
    match rune {
        0..=0x7f => ([rune as u8, 0, 0, 0], 1),
        0x80..=0x7ff => ([0xc0 | (rune >> 6) as u8, tail(0), 0, 0], 2),
        0x800..=0xffff => ([0xe0 | (rune >> 12) as u8, tail(6), tail(0), 0], 3),
        _ => ([0xf0 | (rune >> 18 & 7) as u8, tail(12), tail(6), tail(0)], 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(low: u32, high: u32) -> Vec<Vec<(u8, u8)>> {
        let mut parts = Vec::new();
        let done: Result<(), ()> = split(low, high, &mut |sequence| {
            parts.push(match sequence {
                Sequence::Ascii(low, high) => vec![(low, high)],
                Sequence::AllOthers => vec![(0, 0)],
                Sequence::Bytes(bytes) => bytes.to_vec(),
            });
            Ok(())
        });
        assert_eq!(done, Ok(()));
        parts
    }

    proptest! {
        #[test]
        fn encodes_as_the_standard_library(character: char) {
            let (bytes, length) = encode(u32::from(character));
            let mut buffer = [0; 4];
            prop_assert_eq!(&bytes[..length], character.encode_utf8(&mut buffer).as_bytes());
        }

        #[test]
        fn exactly_the_code_points_of_the_range_are_in_its_parts(low in 0u32..0x11000, length in 0u32..0x3000, probe in 0u32..0x15000) {
            let high = low + length;
            let (bytes, count) = encode(probe);
            let parts = parts(low, high);
            let inside = parts.iter().filter(|part| {
                part.len() == count && part.iter().zip(bytes).all(|((low, high), byte)| (*low..=*high).contains(&byte))
            });
            prop_assert_eq!(inside.count(), usize::from((low..=high).contains(&probe)));
        }
    }
}
