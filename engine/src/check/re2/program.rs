//! The instructions of RE2's automaton, and the pieces they are put together from.

use std::collections::HashMap;

use super::class::RUNE_MAX;
use super::utf8::{self, Sequence};

/// Number of an instruction; 0 is [`Instruction::Fail`], and also stands for "not known yet".
pub(super) type Id = u32;

/// The program grew beyond what may be built.
#[derive(Debug)]
pub(super) struct TooLarge;

#[derive(Debug, Clone, Copy)]
pub(super) enum Instruction {
    Fail,
    Alternative {
        first: Id,
        second: Id,
    },
    /// An [`Instruction::Alternative`] between "any byte, and back" and a match.
    AlternativeMatch {
        first: Id,
        second: Id,
    },
    Bytes {
        low: u8,
        high: u8,
        fold: bool,
        next: Id,
    },
    /// The begin or end of a group.
    Capture {
        next: Id,
    },
    /// A condition on the position.
    Condition {
        next: Id,
    },
    Match,
    Nop {
        next: Id,
    },
}

/// A place in an instruction that is still to be filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hole {
    First(Id),
    Second(Id),
}

/// A piece of a program: where it starts, and where it goes on to what follows.
#[derive(Debug, Default)]
pub(super) struct Fragment {
    /// 0 for a piece that matches nothing.
    pub(super) begin: Id,
    pub(super) ends: Vec<Hole>,
    pub(super) nullable: bool,
}

impl Fragment {
    pub(super) fn is_no_match(&self) -> bool {
        self.begin == 0
    }
}

/// The instructions so far.
pub(super) struct Builder {
    pub(super) instructions: Vec<Instruction>,
    limit: usize,
}

impl Builder {
    /// An empty program, to which up to `limit` instructions may be added.
    pub(super) fn new(limit: usize) -> Self {
        Self { instructions: vec![Instruction::Fail], limit }
    }

    fn add(&mut self, instruction: Instruction) -> Result<Id, TooLarge> {
        let id = Id::try_from(self.instructions.len()).map_err(|_| TooLarge)?;
        if self.instructions.len() >= self.limit {
            return Err(TooLarge);
        }
        self.instructions.push(instruction);
        Ok(id)
    }

    pub(super) fn get(&self, id: Id) -> Instruction {
        self.instructions.get(id as usize).copied().unwrap_or(Instruction::Fail)
    }

    fn fill(&mut self, holes: &[Hole], target: Id) {
        for hole in holes {
            let (Hole::First(id) | Hole::Second(id)) = *hole;
            let Some(instruction) = self.instructions.get_mut(id as usize) else { continue };
            match (instruction, hole) {
                (Instruction::Alternative { first, .. }, Hole::First(_)) => *first = target,
                (Instruction::Alternative { second, .. }, Hole::Second(_)) => *second = target,
                (
                    Instruction::Bytes { next, .. }
                    | Instruction::Capture { next }
                    | Instruction::Condition { next }
                    | Instruction::Nop { next },
                    Hole::First(_),
                ) => *next = target,
                _ => {}
            }
        }
    }

    /// A piece of one instruction that goes on to what follows.
    fn single(&mut self, instruction: Instruction, nullable: bool) -> Result<Fragment, TooLarge> {
        let begin = self.add(instruction)?;
        Ok(Fragment { begin, ends: vec![Hole::First(begin)], nullable })
    }

    pub(super) fn bytes(&mut self, low: u8, high: u8, fold: bool) -> Result<Fragment, TooLarge> {
        self.single(Instruction::Bytes { low, high, fold, next: 0 }, false)
    }

    pub(super) fn condition(&mut self) -> Result<Fragment, TooLarge> {
        self.single(Instruction::Condition { next: 0 }, true)
    }

    pub(super) fn nop(&mut self) -> Result<Fragment, TooLarge> {
        self.single(Instruction::Nop { next: 0 }, true)
    }

    pub(super) fn matched(&mut self) -> Result<Fragment, TooLarge> {
        Ok(Fragment { begin: self.add(Instruction::Match)?, ends: Vec::new(), nullable: false })
    }

    /// One after the other.
    pub(super) fn concat(&mut self, one: Fragment, two: Fragment) -> Fragment {
        if one.is_no_match() || two.is_no_match() {
            return Fragment::default();
        }
        self.fill(&one.ends, two.begin);
        let is_nop = matches!(self.get(one.begin), Instruction::Nop { .. });
        if is_nop && one.ends == [Hole::First(one.begin)] {
            return two;
        }
        Fragment { begin: one.begin, ends: two.ends, nullable: one.nullable && two.nullable }
    }

    /// One or the other.
    pub(super) fn alternative(&mut self, one: Fragment, two: Fragment) -> Result<Fragment, TooLarge> {
        if one.is_no_match() {
            return Ok(two);
        }
        if two.is_no_match() {
            return Ok(one);
        }
        let begin = self.add(Instruction::Alternative { first: one.begin, second: two.begin })?;
        let nullable = one.nullable || two.nullable;
        Ok(Fragment { begin, ends: joined(one.ends, two.ends), nullable })
    }

    /// An instruction that enters `begin` or goes on; which of them comes first depends on greed.
    fn branch(&mut self, begin: Id, greedy: bool) -> Result<(Id, Hole), TooLarge> {
        if greedy {
            let id = self.add(Instruction::Alternative { first: begin, second: 0 })?;
            Ok((id, Hole::Second(id)))
        } else {
            let id = self.add(Instruction::Alternative { first: 0, second: begin })?;
            Ok((id, Hole::First(id)))
        }
    }

    pub(super) fn plus(&mut self, sub: Fragment, greedy: bool) -> Result<Fragment, TooLarge> {
        let (id, end) = self.branch(sub.begin, greedy)?;
        self.fill(&sub.ends, id);
        Ok(Fragment { begin: sub.begin, ends: vec![end], nullable: sub.nullable })
    }

    pub(super) fn star(&mut self, sub: Fragment, greedy: bool) -> Result<Fragment, TooLarge> {
        if sub.nullable {
            // One branch is not enough to keep the order of preference; RE2 takes (x+)?.
            let plus = self.plus(sub, greedy)?;
            return self.quest(plus, greedy);
        }
        let (id, end) = self.branch(sub.begin, greedy)?;
        self.fill(&sub.ends, id);
        Ok(Fragment { begin: id, ends: vec![end], nullable: true })
    }

    pub(super) fn quest(&mut self, sub: Fragment, greedy: bool) -> Result<Fragment, TooLarge> {
        if sub.is_no_match() {
            return self.nop();
        }
        let (id, end) = self.branch(sub.begin, greedy)?;
        Ok(Fragment { begin: id, ends: joined(vec![end], sub.ends), nullable: true })
    }

    pub(super) fn capture(&mut self, sub: Fragment) -> Result<Fragment, TooLarge> {
        if sub.is_no_match() {
            return Ok(sub);
        }
        let begin = self.add(Instruction::Capture { next: sub.begin })?;
        let end = self.add(Instruction::Capture { next: 0 })?;
        self.fill(&sub.ends, end);
        Ok(Fragment { begin, ends: vec![Hole::First(end)], nullable: sub.nullable })
    }

    /// A set of code points, given as ranges with whether case is ignored in each.
    pub(super) fn runes(&mut self, ranges: impl IntoIterator<Item = (u32, u32, bool)>) -> Result<Fragment, TooLarge> {
        let mut set = RuneSet { builder: self, shared: HashMap::new(), root: 0, ends: Vec::new() };
        for (low, high, fold) in ranges {
            set.add(low, high, fold)?;
        }
        Ok(Fragment { begin: set.root, ends: set.ends, nullable: false })
    }
}

/// Both lists; the shorter one is moved.
fn joined(one: Vec<Hole>, two: Vec<Hole>) -> Vec<Hole> {
    let (mut long, short) = if one.len() >= two.len() { (one, two) } else { (two, one) };
    long.extend(short);
    long
}

/// What identifies a byte range that may be shared by several sequences: its bytes, and what follows.
type Key = (u8, u8, bool, Id);

/// Builds the byte sequences of a set of code points as a trie whose tails are shared.
struct RuneSet<'a> {
    builder: &'a mut Builder,
    shared: HashMap<Key, Id>,
    root: Id,
    ends: Vec<Hole>,
}

impl RuneSet<'_> {
    fn add(&mut self, low: u32, high: u32, fold: bool) -> Result<(), TooLarge> {
        utf8::split(low, high, &mut |sequence| match sequence {
            Sequence::Ascii(low, high) => {
                let id = self.range(low, high, fold, 0)?;
                self.insert(id)
            }
            Sequence::AllOthers => self.all_others(),
            Sequence::Bytes(bytes) => self.sequence(bytes),
        })
    }

    fn range(&mut self, low: u8, high: u8, fold: bool, next: Id) -> Result<Id, TooLarge> {
        let id = self.builder.add(Instruction::Bytes { low, high, fold, next })?;
        if next == 0 {
            self.ends.push(Hole::First(id));
        }
        Ok(id)
    }

    fn shared_range(&mut self, low: u8, high: u8, next: Id) -> Result<Id, TooLarge> {
        let key = (low, high, false, next);
        if let Some(id) = self.shared.get(&key) {
            return Ok(*id);
        }
        let id = self.range(low, high, false, next)?;
        self.shared.insert(key, id);
        Ok(id)
    }

    /// Everything beyond ASCII, which RE2 does with fewer instructions than an exact set needs.
    fn all_others(&mut self) -> Result<(), TooLarge> {
        let mut next = 0;
        for (low, high) in [(0xc2, 0xdf), (0xe0, 0xef), (0xf0, 0xf4)] {
            next = self.range(0x80, 0xbf, false, next)?;
            let id = self.range(low, high, false, next)?;
            self.insert(id)?;
        }
        Ok(())
    }

    /// One sequence of two to four byte ranges, built from its end.
    fn sequence(&mut self, bytes: &[(u8, u8)]) -> Result<(), TooLarge> {
        let mut id = 0;
        for (index, (low, high)) in bytes.iter().enumerate().rev() {
            let is_last = index + 1 == bytes.len();
            id = if is_last || low < high && index != 0 {
                self.shared_range(*low, *high, id)?
            } else {
                self.range(*low, *high, false, id)?
            };
        }
        self.insert(id)
    }

    fn insert(&mut self, id: Id) -> Result<(), TooLarge> {
        self.root = if self.root == 0 { id } else { self.insert_below(self.root, id)? };
        Ok(())
    }

    /// Puts the sequence that starts at `id` beside those at `root`; gives the new root.
    fn insert_below(&mut self, root: Id, id: Id) -> Result<Id, TooLarge> {
        // Sequences come in order, so only the latest can begin with the same bytes.
        let (latest, is_alternative) = match self.builder.get(root) {
            Instruction::Alternative { second, .. } => (second, true),
            _ => (root, false),
        };
        if self.bytes_of(latest) != self.bytes_of(id) {
            return self.builder.add(Instruction::Alternative { first: root, second: id });
        }
        let (mut same, mut root) = (latest, root);
        if self.is_shared(same) {
            // Others use it as their tail: a copy can be changed.
            same = self.builder.add(self.builder.get(same))?;
            if is_alternative {
                self.builder.fill(&[Hole::Second(root)], same);
            } else {
                root = same;
            }
        }
        let tail = self.next_of(id);
        if !self.is_shared(id) && id as usize + 1 == self.builder.instructions.len() {
            self.builder.instructions.pop();
        }
        let next = self.insert_below(self.next_of(same), tail)?;
        self.builder.fill(&[Hole::First(same)], next);
        Ok(root)
    }

    fn bytes_of(&self, id: Id) -> Option<(u8, u8, bool)> {
        match self.builder.get(id) {
            Instruction::Bytes { low, high, fold, .. } => Some((low, high, fold)),
            _ => None,
        }
    }

    fn next_of(&self, id: Id) -> Id {
        match self.builder.get(id) {
            Instruction::Bytes { next, .. } => next,
            _ => 0,
        }
    }

    fn is_shared(&self, id: Id) -> bool {
        match self.builder.get(id) {
            Instruction::Bytes { low, high, fold, next } => self.shared.contains_key(&(low, high, fold, next)),
            _ => false,
        }
    }
}

/// The whole range of code points.
pub(super) const ALL_RUNES: (u32, u32, bool) = (0, RUNE_MAX, false);
