//! Size of a program as RE2 reports it: the size of the program after flattening into lists.
//!
//! RE2 turns the graph of instructions into lists without branches: one list for each "root", with all instructions
//! that can be reached from it without reading a byte. Only the lengths of the lists matter here.

use super::compile::Compiled;
use super::program::{GivenUp, Id, Instruction};
use crate::meter::Meter;

/// Returns the size of the flattened program.
pub(super) fn size(compiled: Compiled<'_>) -> Result<u32, GivenUp> {
    let Compiled { builder, start, start_anywhere } = compiled;
    let (mut instructions, meter) = (builder.instructions, builder.meter);
    if start == 0 && start_anywhere == 0 {
        // Nothing can match; RE2 keeps only the fail instruction.
        instructions.truncate(1);
    }
    let mut flattener = Flattener::new(instructions, start, start_anywhere, meter);
    flattener.skip_nops()?;
    flattener.mark_matches()?;
    flattener.mark_successors()?;
    flattener.mark_dominators()?;
    flattener.emitted()
}

struct Flattener<'m> {
    instructions: Vec<Instruction>,
    start: Id,
    start_anywhere: Id,
    /// The roots in the order in which they were found.
    roots: Vec<Id>,
    is_root: Vec<bool>,
    /// For each instruction, the branches that lead to it.
    predecessors: Vec<Vec<Id>>,
    seen: Seen,
    meter: &'m mut Meter,
}

/// A set of instructions that is fast to clear.
struct Seen {
    round: u32,
    last: Vec<u32>,
    members: Vec<Id>,
}

impl Seen {
    fn clear(&mut self) {
        self.round += 1;
        self.members.clear();
    }

    fn contains(&self, id: Id) -> bool {
        self.last.get(id as usize) == Some(&self.round)
    }

    /// Adds an instruction; returns whether the instruction was new.
    fn insert(&mut self, id: Id) -> bool {
        match self.last.get_mut(id as usize) {
            Some(last) if *last != self.round => {
                *last = self.round;
                self.members.push(id);
                true
            }
            _ => false,
        }
    }
}

impl<'m> Flattener<'m> {
    fn new(instructions: Vec<Instruction>, start: Id, start_anywhere: Id, meter: &'m mut Meter) -> Self {
        let count = instructions.len();
        Self {
            instructions,
            start,
            start_anywhere,
            roots: Vec::new(),
            is_root: vec![false; count],
            predecessors: vec![Vec::new(); count],
            seen: Seen { round: 1, last: vec![0; count], members: Vec::new() },
            meter,
        }
    }

    fn get(&self, id: Id) -> Instruction {
        self.instructions.get(id as usize).copied().unwrap_or(Instruction::Fail)
    }

    fn step(&mut self) -> Result<(), GivenUp> {
        Ok(self.meter.spend(1)?)
    }

    /// Returns the first instruction from here on that is not a no-op.
    fn past_nops(&mut self, mut id: Id) -> Result<Id, GivenUp> {
        while id != 0 {
            let Instruction::Nop { next } = self.get(id) else { break };
            self.step()?;
            id = next;
        }
        Ok(id)
    }

    /// Makes all reachable instructions skip the no-ops.
    fn skip_nops(&mut self) -> Result<(), GivenUp> {
        self.for_each_reachable(|this, id| {
            let mut instruction = this.get(id);
            match &mut instruction {
                Instruction::Alternative { first, second } | Instruction::AlternativeMatch { first, second } => {
                    *first = this.past_nops(*first)?;
                    *second = this.past_nops(*second)?;
                }
                Instruction::Bytes { next, .. }
                | Instruction::Capture { next }
                | Instruction::Condition { next }
                | Instruction::Nop { next } => *next = this.past_nops(*next)?,
                Instruction::Fail | Instruction::Match => {}
            }
            if let Some(place) = this.instructions.get_mut(id as usize) {
                *place = instruction;
            }
            Ok(())
        })
    }

    /// Finds branches between "any byte, and back" and a certain match, which take one more instruction.
    fn mark_matches(&mut self) -> Result<(), GivenUp> {
        self.for_each_reachable(|this, id| {
            let Instruction::Alternative { first, second } = this.get(id) else { return Ok(()) };
            let loops =
                |other| matches!(this.get(other), Instruction::Bytes { low: 0, high: 0xff, next, .. } if next == id);
            let (first_loops, second_loops) = (loops(first), loops(second));
            let is_match = first_loops && this.always_matches(second)? || second_loops && this.always_matches(first)?;
            if is_match && let Some(place) = this.instructions.get_mut(id as usize) {
                *place = Instruction::AlternativeMatch { first, second };
            }
            Ok(())
        })
    }

    fn always_matches(&mut self, mut id: Id) -> Result<bool, GivenUp> {
        loop {
            self.step()?;
            match self.get(id) {
                Instruction::Match => return Ok(true),
                Instruction::Nop { next } | Instruction::Capture { next } => id = next,
                _ => return Ok(false),
            }
        }
    }

    /// Visits all instructions that can be reached from the start, breadth first.
    fn for_each_reachable(&mut self, visit: impl Fn(&mut Self, Id) -> Result<(), GivenUp>) -> Result<(), GivenUp> {
        self.seen.clear();
        let mut index = 0;
        if self.start != 0 {
            self.seen.insert(self.start);
        }
        while let Some(id) = self.seen.members.get(index).copied() {
            index += 1;
            self.step()?;
            visit(self, id)?;
            for next in outs(self.get(id)).into_iter().flatten().filter(|next| *next != 0) {
                self.seen.insert(next);
            }
        }
        Ok(())
    }

    fn add_root(&mut self, id: Id) {
        if let Some(is_root @ false) = self.is_root.get_mut(id as usize) {
            *is_root = true;
            self.roots.push(id);
        }
    }

    fn is_root(&self, id: Id) -> bool {
        self.is_root.get(id as usize) == Some(&true)
    }

    /// Marks the instructions after a byte, an edge of a group or a condition as roots, and records the predecessors of
    /// branch targets.
    fn mark_successors(&mut self) -> Result<(), GivenUp> {
        self.add_root(0);
        self.add_root(self.start_anywhere);
        self.add_root(self.start);
        self.seen.clear();
        let mut stack = vec![self.start_anywhere];
        while let Some(id) = stack.pop() {
            self.step()?;
            if !self.seen.insert(id) {
                continue;
            }
            match self.get(id) {
                Instruction::Alternative { first, second } | Instruction::AlternativeMatch { first, second } => {
                    for out in [first, second] {
                        if let Some(predecessors) = self.predecessors.get_mut(out as usize) {
                            predecessors.push(id);
                        }
                    }
                    stack.extend([second, first]);
                }
                Instruction::Bytes { next, .. } | Instruction::Capture { next } | Instruction::Condition { next } => {
                    self.add_root(next);
                    stack.push(next);
                }
                Instruction::Nop { next } => stack.push(next),
                Instruction::Match | Instruction::Fail => {}
            }
        }
        Ok(())
    }

    /// Marks branches that can be reached from several roots as roots, so that none is emitted twice.
    fn mark_dominators(&mut self) -> Result<(), GivenUp> {
        let mut sorted = self.roots.clone();
        sorted.sort_unstable();
        for root in sorted.into_iter().skip(1).rev() {
            if root == self.start || root == self.start_anywhere {
                continue;
            }
            self.flood(root, |_| {})?;
            for index in 0..self.seen.members.len() {
                let Some(id) = self.seen.members.get(index).copied() else { break };
                if !self.is_root(id) && self.is_entered_from_elsewhere(id)? {
                    self.add_root(id);
                }
            }
        }
        Ok(())
    }

    /// Returns whether a branch that was not seen leads to this instruction.
    fn is_entered_from_elsewhere(&mut self, id: Id) -> Result<bool, GivenUp> {
        let predecessors = self.predecessors.get(id as usize).map(Vec::as_slice).unwrap_or_default();
        let seen = predecessors.iter().take_while(|predecessor| self.seen.contains(**predecessor)).count();
        let found = seen < predecessors.len();
        self.meter.spend(seen + 1)?;
        Ok(found)
    }

    /// Visits the instructions that can be reached from a root without reading a byte, up to other roots, and passes
    /// each result to `visit`.
    fn flood(&mut self, root: Id, mut visit: impl FnMut(Reached)) -> Result<(), GivenUp> {
        self.seen.clear();
        let mut stack = vec![root];
        while let Some(id) = stack.pop() {
            self.step()?;
            if !self.seen.insert(id) {
                continue;
            }
            if id != root && self.is_root(id) {
                visit(Reached::Root);
                continue;
            }
            match self.get(id) {
                Instruction::Alternative { first, second } => stack.extend([second, first]),
                Instruction::AlternativeMatch { first, second } => {
                    visit(Reached::Leaf);
                    stack.extend([second, first]);
                }
                Instruction::Nop { next } => stack.push(next),
                _ => visit(Reached::Leaf),
            }
        }
        Ok(())
    }

    /// Returns the number of instructions in all lists together.
    fn emitted(&mut self) -> Result<u32, GivenUp> {
        let mut count = 0;
        for root in self.roots.clone() {
            self.flood(root, |reached| match reached {
                Reached::Root | Reached::Leaf => count += 1,
            })?;
        }
        Ok(count)
    }
}

/// An instruction that a flood has reached: both kinds take one instruction in the list.
enum Reached {
    Root,
    Leaf,
}

fn outs(instruction: Instruction) -> [Option<Id>; 2] {
    match instruction {
        Instruction::Alternative { first, second } | Instruction::AlternativeMatch { first, second } => {
            [Some(first), Some(second)]
        }
        Instruction::Bytes { next, .. }
        | Instruction::Capture { next }
        | Instruction::Condition { next }
        | Instruction::Nop { next } => [Some(next), None],
        Instruction::Fail | Instruction::Match => [None, None],
    }
}
