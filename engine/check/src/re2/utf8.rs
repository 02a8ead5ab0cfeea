//! Compilation of ranges of characters to UTF-8, as in RE2.
//!
//! A range becomes sequences of ranges of bytes. Sequences share their last bytes through a cache, and their first
//! bytes in a trie, so the number of instructions depends on the order in which they are made and on which of them may
//! be changed. So this module follows RE2 step by step.

use std::collections::HashMap;

use super::program::{Builder, Fragment, GivenUp, Hole, Id, Instruction};
use super::unicode::RuneRange;

/// The largest characters of one, two and three bytes.
const LENGTH_ENDS: [u32; 3] = [0x7f, 0x7ff, 0xffff];
/// All characters that need several bytes.
const BEYOND_ASCII: RuneRange = (0x80, 0x10_ffff);

/// Returns the bytes of a character. RE2 also encodes surrogates, which are no `char`.
pub(super) fn bytes(rune: u32) -> Vec<u8> {
    let low = |shift: u32| u8::try_from(rune >> shift & 0x3f).unwrap_or_default() | 0x80;
    let first = |shift: u32, mark: u8| u8::try_from(rune >> shift).unwrap_or_default() | mark;
    match rune {
        ..=0x7f => vec![first(0, 0)],
        0x80..=0x7ff => vec![first(6, 0xc0), low(0)],
        0x800..=0xffff => vec![first(12, 0xe0), low(6), low(0)],
        _ => vec![first(18, 0xf0), low(12), low(6), low(0)],
    }
}

/// Returns the fragment for the characters of some ranges, which are in order.
pub(super) fn fragment(builder: &mut Builder<'_>, ranges: &[RuneRange]) -> Result<Fragment, GivenUp> {
    let mut class = Class { builder, begin: 0, ends: Vec::new(), suffixes: HashMap::new() };
    for range in ranges {
        class.range(*range)?;
    }
    Ok(Fragment { begin: class.begin, ends: class.ends, nullable: false })
}

/// A class that is compiled range by range.
struct Class<'b, 'm> {
    builder: &'b mut Builder<'m>,
    /// The root of the trie; 0 while there is none.
    begin: Id,
    ends: Vec<Hole>,
    /// Sequences that may be shared, by their first range of bytes and their rest.
    suffixes: HashMap<(u8, u8, Id), Id>,
}

impl Class<'_, '_> {
    /// Adds a range: parts of it that agree on their leading bytes, one by one.
    fn range(&mut self, (low, high): RuneRange) -> Result<(), GivenUp> {
        if (low, high) == BEYOND_ASCII {
            return self.beyond_ascii();
        }
        if let Some(end) = LENGTH_ENDS.into_iter().find(|end| low <= *end && *end < high) {
            self.range((low, end))?;
            return self.range((end + 1, high));
        }
        if high < 0x80 {
            let byte = |rune: u32| u8::try_from(rune).unwrap_or_default();
            let id = self.suffix(byte(low), byte(high), 0)?;
            return self.sequence(id);
        }
        for continuations in 1..=3 {
            let mask = (1 << (6 * continuations)) - 1;
            if low & !mask == high & !mask {
                continue;
            }
            if low & mask != 0 {
                self.range((low, low | mask))?;
                return self.range(((low | mask) + 1, high));
            }
            if high & mask != mask {
                self.range((low, (high & !mask) - 1))?;
                return self.range((high & !mask, high));
            }
        }
        let pairs: Vec<(u8, u8)> = bytes(low).into_iter().zip(bytes(high)).collect();
        let mut id = 0;
        for (place, (from, to)) in pairs.iter().copied().enumerate().rev() {
            // The last byte, and ranges between it and the first, are likely to be shared.
            let is_shared = place + 1 == pairs.len() || from < to && place != 0;
            id = if is_shared { self.shared_suffix(from, to, id)? } else { self.suffix(from, to, id)? };
        }
        self.sequence(id)
    }

    /// Adds all characters beyond ASCII, for which RE2 also accepts encodings that are too long.
    fn beyond_ascii(&mut self) -> Result<(), GivenUp> {
        let mut continuations = 0;
        for (from, to) in [(0xc2, 0xdf), (0xe0, 0xef), (0xf0, 0xf4)] {
            continuations = self.suffix(0x80, 0xbf, continuations)?;
            let id = self.suffix(from, to, continuations)?;
            self.sequence(id)?;
        }
        Ok(())
    }

    /// Makes an instruction that continues with `next`, or ends the sequence if `next` is 0.
    fn suffix(&mut self, low: u8, high: u8, next: Id) -> Result<Id, GivenUp> {
        let id = self.builder.add(Instruction::Bytes { low, high, next })?;
        if next == 0 {
            self.ends.push(Hole::First(id));
        }
        Ok(id)
    }

    fn shared_suffix(&mut self, low: u8, high: u8, next: Id) -> Result<Id, GivenUp> {
        if let Some(id) = self.suffixes.get(&(low, high, next)) {
            return Ok(*id);
        }
        let id = self.suffix(low, high, next)?;
        self.suffixes.insert((low, high, next), id);
        Ok(id)
    }

    fn is_shared(&self, id: Id) -> bool {
        match self.builder.get(id) {
            Instruction::Bytes { low, high, next } => self.suffixes.contains_key(&(low, high, next)),
            _ => false,
        }
    }

    /// Adds a sequence to the trie.
    fn sequence(&mut self, id: Id) -> Result<(), GivenUp> {
        self.begin = if self.begin == 0 { id } else { self.inserted(self.begin, id)? };
        Ok(())
    }

    /// Returns the root of a trie after a sequence was added. The recursion is as deep as a sequence is long.
    fn inserted(&mut self, root: Id, id: Id) -> Result<Id, GivenUp> {
        let branch = match self.builder.get(root) {
            Instruction::Alternative { second, .. } => second,
            _ => root,
        };
        let (Some((low, high, rest)), Some((from, to, more))) = (self.read(branch), self.read(id)) else {
            return Ok(root);
        };
        // The ranges are in order, so only the last branch can begin with the same bytes.
        if (low, high) != (from, to) {
            return self.builder.add(Instruction::Alternative { first: root, second: id });
        }
        let (mut root, mut own) = (root, branch);
        if self.is_shared(branch) {
            own = self.builder.add(Instruction::Bytes { low, high, next: rest })?;
            if branch == root {
                root = own;
            } else {
                self.builder.fill(&[Hole::Second(root)], own)?;
            }
        }
        if !self.is_shared(id) {
            self.builder.remove_last(id);
        }
        let rest = self.inserted(rest, more)?;
        self.builder.fill(&[Hole::First(own)], rest)?;
        Ok(root)
    }

    /// Returns the bytes that an instruction reads, and the next instruction.
    fn read(&self, id: Id) -> Option<(u8, u8, Id)> {
        match self.builder.get(id) {
            Instruction::Bytes { low, high, next } => Some((low, high, next)),
            _ => None,
        }
    }
}
