//! Instructions of RE2 programs, and the fragments from which they are built.

use super::encoding::Encoding;
use crate::meter::{Meter, OutOfSteps};

/// Number of an instruction; 0 is [`Instruction::Fail`], and also means "not known yet".
pub(super) type Id = u32;

/// Reason why a program is not completed.
#[derive(Debug)]
pub(super) enum GivenUp {
    /// The program became too large.
    TooLarge,
    /// The work took too many steps.
    Costly,
}

impl From<OutOfSteps> for GivenUp {
    fn from(_: OutOfSteps) -> Self {
        Self::Costly
    }
}

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
        next: Id,
    },
    /// The start or end of a group.
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

/// A target in an instruction that is still to be filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hole {
    First(Id),
    Second(Id),
}

/// A fragment of a program: its entry, and its open ends.
#[derive(Debug, Default)]
pub(super) struct Fragment {
    /// Entry; 0 for a fragment that matches nothing.
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
pub(super) struct Builder<'m> {
    pub(super) instructions: Vec<Instruction>,
    pub(super) meter: &'m mut Meter,
    pub(super) encoding: Encoding,
    limit: usize,
}

impl<'m> Builder<'m> {
    /// Returns an empty program, to which up to `limit` instructions may be added.
    pub(super) fn new(limit: usize, encoding: Encoding, meter: &'m mut Meter) -> Self {
        Self { instructions: vec![Instruction::Fail], meter, encoding, limit }
    }

    pub(super) fn add(&mut self, instruction: Instruction) -> Result<Id, GivenUp> {
        self.meter.spend(1)?;
        let id = Id::try_from(self.instructions.len()).map_err(|_| GivenUp::TooLarge)?;
        if self.instructions.len() >= self.limit {
            return Err(GivenUp::TooLarge);
        }
        self.instructions.push(instruction);
        Ok(id)
    }

    /// Removes an instruction again, if it is the last one.
    pub(super) fn remove_last(&mut self, id: Id) {
        if self.instructions.len().checked_sub(1) == Some(id as usize) {
            self.instructions.pop();
        }
    }

    pub(super) fn get(&self, id: Id) -> Instruction {
        self.instructions.get(id as usize).copied().unwrap_or(Instruction::Fail)
    }

    pub(super) fn fill(&mut self, holes: &[Hole], target: Id) -> Result<(), GivenUp> {
        self.meter.spend(holes.len())?;
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
        Ok(())
    }

    /// Returns a fragment of one instruction with an open end.
    fn single(&mut self, instruction: Instruction, nullable: bool) -> Result<Fragment, GivenUp> {
        let begin = self.add(instruction)?;
        Ok(Fragment { begin, ends: vec![Hole::First(begin)], nullable })
    }

    pub(super) fn bytes(&mut self, low: u8, high: u8) -> Result<Fragment, GivenUp> {
        self.single(Instruction::Bytes { low, high, next: 0 }, false)
    }

    pub(super) fn condition(&mut self) -> Result<Fragment, GivenUp> {
        self.single(Instruction::Condition { next: 0 }, true)
    }

    pub(super) fn nop(&mut self) -> Result<Fragment, GivenUp> {
        self.single(Instruction::Nop { next: 0 }, true)
    }

    pub(super) fn matched(&mut self) -> Result<Fragment, GivenUp> {
        Ok(Fragment { begin: self.add(Instruction::Match)?, ends: Vec::new(), nullable: false })
    }

    /// Returns the concatenation of two fragments.
    pub(super) fn concat(&mut self, one: Fragment, two: Fragment) -> Result<Fragment, GivenUp> {
        if one.is_no_match() || two.is_no_match() {
            return Ok(Fragment::default());
        }
        self.fill(&one.ends, two.begin)?;
        let is_nop = matches!(self.get(one.begin), Instruction::Nop { .. });
        if is_nop && one.ends == [Hole::First(one.begin)] {
            return Ok(two);
        }
        Ok(Fragment { begin: one.begin, ends: two.ends, nullable: one.nullable && two.nullable })
    }

    /// Returns the alternation of two fragments.
    pub(super) fn alternative(&mut self, one: Fragment, two: Fragment) -> Result<Fragment, GivenUp> {
        if one.is_no_match() {
            return Ok(two);
        }
        if two.is_no_match() {
            return Ok(one);
        }
        let begin = self.add(Instruction::Alternative { first: one.begin, second: two.begin })?;
        let nullable = one.nullable || two.nullable;
        Ok(Fragment { begin, ends: self.joined(one.ends, two.ends)?, nullable })
    }

    /// Returns an instruction that enters `begin` or continues; greediness decides which of them is first.
    fn branch(&mut self, begin: Id, greedy: bool) -> Result<(Id, Hole), GivenUp> {
        if greedy {
            let id = self.add(Instruction::Alternative { first: begin, second: 0 })?;
            Ok((id, Hole::Second(id)))
        } else {
            let id = self.add(Instruction::Alternative { first: 0, second: begin })?;
            Ok((id, Hole::First(id)))
        }
    }

    pub(super) fn plus(&mut self, sub: Fragment, greedy: bool) -> Result<Fragment, GivenUp> {
        let (id, end) = self.branch(sub.begin, greedy)?;
        self.fill(&sub.ends, id)?;
        Ok(Fragment { begin: sub.begin, ends: vec![end], nullable: sub.nullable })
    }

    pub(super) fn star(&mut self, sub: Fragment, greedy: bool) -> Result<Fragment, GivenUp> {
        if sub.nullable {
            // One branch is not enough to keep the order of preference; RE2 uses (x+)?.
            let plus = self.plus(sub, greedy)?;
            return self.quest(plus, greedy);
        }
        let (id, end) = self.branch(sub.begin, greedy)?;
        self.fill(&sub.ends, id)?;
        Ok(Fragment { begin: id, ends: vec![end], nullable: true })
    }

    pub(super) fn quest(&mut self, sub: Fragment, greedy: bool) -> Result<Fragment, GivenUp> {
        if sub.is_no_match() {
            return self.nop();
        }
        let (id, end) = self.branch(sub.begin, greedy)?;
        Ok(Fragment { begin: id, ends: self.joined(vec![end], sub.ends)?, nullable: true })
    }

    pub(super) fn capture(&mut self, sub: Fragment) -> Result<Fragment, GivenUp> {
        if sub.is_no_match() {
            return Ok(sub);
        }
        let begin = self.add(Instruction::Capture { next: sub.begin })?;
        let end = self.add(Instruction::Capture { next: 0 })?;
        self.fill(&sub.ends, end)?;
        Ok(Fragment { begin, ends: vec![Hole::First(end)], nullable: sub.nullable })
    }

    /// Joins two lists; the shorter one is moved.
    fn joined(&mut self, one: Vec<Hole>, two: Vec<Hole>) -> Result<Vec<Hole>, GivenUp> {
        let (mut long, short) = if one.len() >= two.len() { (one, two) } else { (two, one) };
        self.meter.spend(short.len())?;
        long.extend(short);
        Ok(long)
    }
}
