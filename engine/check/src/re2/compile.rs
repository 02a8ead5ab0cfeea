//! Compiler from tree to program.

use super::class::{ASCII_UPPERCASE, RuneClass};
use super::encoding::Encoding;
use super::least;
use super::program::{Builder, Fragment, GivenUp, Id};
use super::simplify;
use super::tree::{Flags, Look, RegexNode, Unary};
use super::unicode::RuneRange;
use super::utf8;
use crate::meter::Meter;

/// A program before it is flattened.
pub(super) struct Compiled<'m> {
    pub(super) builder: Builder<'m>,
    /// Entry of a match that begins at the current position.
    pub(super) start: Id,
    /// Entry of a match that begins anywhere; equal to `start` for an anchored regex.
    pub(super) start_anywhere: Id,
}

/// A regex in the form that is compiled, after the rewrites of RE2.
pub(super) struct Rewritten {
    node: RegexNode,
    encoding: Encoding,
    anchored: bool,
}

impl Rewritten {
    pub(super) fn new(node: RegexNode, encoding: Encoding) -> Self {
        let mut node = simplify::simplify(without_required_prefix(node));
        let anchored = simplify::take_start_anchor(&mut node, 0);
        simplify::take_end_anchor(&mut node, 0);
        Self { node, encoding, anchored }
    }

    /// Checks whether an empty part, such as `(?:)`, follows a repetition.
    pub(super) fn has_empty_part(&self) -> bool {
        let is_one = |pair: &[RegexNode]| matches!(pair, [RegexNode::Unary { .. }, RegexNode::Empty]);
        let mut nodes = vec![&self.node];
        while let Some(node) = nodes.pop() {
            match node {
                RegexNode::Concat(subs) if subs.windows(2).any(is_one) => return true,
                RegexNode::Concat(subs) | RegexNode::Alternate(subs) => nodes.extend(subs),
                RegexNode::Unary { sub, .. } | RegexNode::Repeat { sub, .. } | RegexNode::Capture(sub) => {
                    nodes.push(sub);
                }
                _ => {}
            }
        }
        false
    }

    /// Returns the minimum number of instructions of the program.
    pub(super) fn instructions_min(&self) -> u64 {
        least::instructions(&self.node, self.encoding)
    }
}

/// Compiles a regex; fails once the program has more than `limit` instructions.
pub(super) fn compile<'m>(regex: &Rewritten, limit: usize, meter: &'m mut Meter) -> Result<Compiled<'m>, GivenUp> {
    let mut compiler = Compiler { builder: Builder::new(limit, regex.encoding, meter) };
    let all = compiler.node(&regex.node)?;
    let mut builder = compiler.builder;
    let matched = builder.matched()?;
    let mut all = builder.concat(all, matched)?;
    let start = all.begin;
    if !regex.anchored {
        let any = builder.bytes(0x00, 0xff)?;
        let skip = builder.star(any, false)?;
        all = builder.concat(skip, all)?;
    }
    Ok(Compiled { builder, start, start_anywhere: all.begin })
}

/// Removes a literal at the start of an anchored regex, which RE2 compares separately.
fn without_required_prefix(node: RegexNode) -> RegexNode {
    let RegexNode::Concat(mut subs) = node else { return node };
    let anchors = subs.iter().take_while(|sub| matches!(sub, RegexNode::Look(Look::TextStart))).count();
    match subs.get(anchors) {
        Some(RegexNode::Literal { .. } | RegexNode::String { .. }) if anchors > 0 => {
            RegexNode::concat(subs.split_off(anchors + 1))
        }
        _ => RegexNode::Concat(subs),
    }
}

/// The compiler of the nodes of one regex.
struct Compiler<'m> {
    builder: Builder<'m>,
}

impl Compiler<'_> {
    fn node(&mut self, node: &RegexNode) -> Result<Fragment, GivenUp> {
        self.builder.meter.spend(1)?;
        match node {
            RegexNode::NoMatch => Ok(Fragment::default()),
            RegexNode::Empty => self.builder.nop(),
            RegexNode::Literal { rune, .. } => self.rune(*rune),
            RegexNode::String { runes, .. } => self.sequence(runes, |compiler, rune| compiler.rune(*rune)),
            RegexNode::Class(class) => self.class(class),
            RegexNode::AnyChar => self.ranges(&[(0, self.builder.encoding.rune_max())]),
            RegexNode::AnyByte => self.builder.bytes(0x00, 0xff),
            RegexNode::Look(_) => self.builder.condition(),
            RegexNode::Unary { operator, sub, flags } => {
                let sub = self.node(sub)?;
                self.unary(*operator, sub, *flags)
            }
            RegexNode::Repeat { sub, minimum, maximum, flags } => self.repeat(sub, *minimum, *maximum, *flags),
            RegexNode::Capture(sub) => {
                let sub = self.node(sub)?;
                self.builder.capture(sub)
            }
            RegexNode::Concat(subs) => self.sequence(subs, |compiler, sub| compiler.node(sub)),
            RegexNode::Alternate(subs) => {
                let mut all: Option<Fragment> = None;
                for fragment in subs.iter().map(|sub| self.node(sub)).collect::<Result<Vec<_>, _>>()? {
                    all = Some(match all {
                        None => fragment,
                        Some(all) => self.builder.alternative(all, fragment)?,
                    });
                }
                Ok(all.unwrap_or_default())
            }
        }
    }

    fn sequence<T>(
        &mut self,
        parts: &[T],
        mut compile: impl FnMut(&mut Self, &T) -> Result<Fragment, GivenUp>,
    ) -> Result<Fragment, GivenUp> {
        let mut all: Option<Fragment> = None;
        for part in parts {
            let fragment = compile(self, part)?;
            all = Some(match all {
                None => fragment,
                Some(all) => self.builder.concat(all, fragment)?,
            });
        }
        all.map_or_else(|| self.builder.nop(), Ok)
    }

    fn rune(&mut self, rune: u32) -> Result<Fragment, GivenUp> {
        match self.builder.encoding {
            Encoding::Latin1 => self.ranges(&[(rune, rune)]),
            Encoding::Utf8 => {
                let bytes = utf8::bytes(rune);
                self.sequence(&bytes, |compiler, byte| compiler.builder.bytes(*byte, *byte))
            }
        }
    }

    fn class(&mut self, class: &RuneClass) -> Result<Fragment, GivenUp> {
        // A class that contains both cases of each ASCII letter needs one instruction for a range in both cases.
        let folds = class.folds_ascii();
        let is_second_case =
            |(low, high): &RuneRange| folds && ASCII_UPPERCASE.contains(low) && ASCII_UPPERCASE.contains(high);
        let ranges: Vec<RuneRange> = class.ranges().iter().copied().filter(|range| !is_second_case(range)).collect();
        self.ranges(&ranges)
    }

    fn ranges(&mut self, ranges: &[RuneRange]) -> Result<Fragment, GivenUp> {
        match self.builder.encoding {
            Encoding::Utf8 => utf8::fragment(&mut self.builder, ranges),
            Encoding::Latin1 => {
                let mut all = Fragment::default();
                for (low, high) in ranges {
                    let byte = |rune: u32| u8::try_from(rune).unwrap_or(u8::MAX);
                    let range = self.builder.bytes(byte(*low), byte(*high))?;
                    all = self.builder.alternative(all, range)?;
                }
                Ok(all)
            }
        }
    }

    fn unary(&mut self, operator: Unary, sub: Fragment, flags: Flags) -> Result<Fragment, GivenUp> {
        let greedy = !flags.has(Flags::NON_GREEDY);
        match operator {
            Unary::Star => self.builder.star(sub, greedy),
            Unary::Plus => self.builder.plus(sub, greedy),
            Unary::Quest => self.builder.quest(sub, greedy),
        }
    }

    /// Repeats by copies: `x{3,}` is `xxx+`, `x{2,4}` is `xx(x(x)?)?`.
    fn repeat(
        &mut self,
        sub: &RegexNode,
        minimum: u32,
        maximum: Option<u32>,
        flags: Flags,
    ) -> Result<Fragment, GivenUp> {
        let (required, optional) = match maximum {
            Some(maximum) => (minimum, maximum.saturating_sub(minimum)),
            None => (minimum.saturating_sub(1), 0),
        };
        let mut parts = Vec::new();
        for _ in 0..required {
            parts.push(self.node(sub)?);
        }
        if maximum.is_none() {
            parts.push(self.node(&simplify::squashed(Unary::Plus, sub.clone(), flags))?);
        }
        if optional > 0 {
            parts.push(self.optional(sub, optional, flags)?);
        }
        let mut parts = parts.into_iter();
        let Some(mut all) = parts.next() else { return self.builder.nop() };
        for part in parts {
            all = self.builder.concat(all, part)?;
        }
        Ok(all)
    }

    /// Builds `(x(x(x)?)?)?` from the innermost copy outwards, since the nesting may be deep.
    fn optional(&mut self, sub: &RegexNode, copies: u32, flags: Flags) -> Result<Fragment, GivenUp> {
        let mut outer = Vec::new();
        for _ in 1..copies {
            outer.push(self.node(sub)?);
        }
        let mut inner = self.node(&simplify::squashed(Unary::Quest, sub.clone(), flags))?;
        while let Some(copy) = outer.pop() {
            let both = self.builder.concat(copy, inner)?;
            inner = self.unary(Unary::Quest, both, flags)?;
        }
        Ok(inner)
    }
}
