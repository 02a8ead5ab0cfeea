//! Lower bound of the number of instructions of a program, computed before the program is built.

use super::class::{ASCII_UPPERCASE, RuneClass};
use super::encoding::Encoding;
use super::tree::{RegexNode, Unary};
use super::utf8;

/// Instructions beside those of the regex, at least: the match, and the loop at the start of a regex without an anchor.
const AROUND: u64 = 1;

/// Returns the number of instructions that every form of the program has: those that read a byte, check a position or
/// mark a group. Branches are not counted, since flattening removes them. Copies are counted without being made.
pub(super) fn instructions(node: &RegexNode, encoding: Encoding) -> u64 {
    of(node, encoding).map_or(0, |count| count.saturating_add(AROUND))
}

/// Returns `None` for a node that never matches, which leaves no instructions.
fn of(node: &RegexNode, encoding: Encoding) -> Option<u64> {
    let of = |node: &RegexNode| of(node, encoding);
    match node {
        RegexNode::NoMatch => None,
        RegexNode::Empty => Some(0),
        RegexNode::AnyChar | RegexNode::AnyByte | RegexNode::Look(_) => Some(1),
        RegexNode::Literal { rune, .. } => Some(bytes(&[*rune], encoding)),
        RegexNode::String { runes, .. } => Some(bytes(runes, encoding)),
        RegexNode::Class(class) => Some(class_ranges(class, encoding) as u64).filter(|count| *count > 0),
        RegexNode::Unary { operator: Unary::Plus, sub, .. } => of(sub),
        RegexNode::Unary { sub, .. } => Some(of(sub).unwrap_or(0)),
        RegexNode::Repeat { sub, minimum, maximum, .. } => {
            let copies = maximum.unwrap_or(*minimum).max(1);
            match of(sub) {
                Some(count) => Some(count.saturating_mul(copies.into())),
                None if *minimum == 0 && maximum.is_some() => Some(0),
                None => None,
            }
        }
        RegexNode::Capture(sub) => of(sub).map(|count| count.saturating_add(2)),
        RegexNode::Concat(subs) => {
            subs.iter().try_fold(0, |sum: u64, sub| of(sub).map(|count| sum.saturating_add(count)))
        }
        RegexNode::Alternate(subs) => {
            subs.iter().filter_map(&of).fold(None, |sum, count| Some(sum.unwrap_or(0_u64).saturating_add(count)))
        }
    }
}

/// Returns the number of bytes of a text.
fn bytes(runes: &[u32], encoding: Encoding) -> u64 {
    match encoding {
        Encoding::Latin1 => runes.len() as u64,
        Encoding::Utf8 => runes.iter().map(|rune| utf8::bytes(*rune).len() as u64).sum(),
    }
}

/// Returns the number of ranges that certainly need an instruction: of a class that contains both cases of each letter,
/// only the ranges of one case. In UTF-8,
/// ranges beyond ASCII may share instructions, so they are counted as one.
fn class_ranges(class: &RuneClass, encoding: Encoding) -> usize {
    let folds = class.folds_ascii();
    let is_second_case =
        |low: u32, high: u32| folds && ASCII_UPPERCASE.contains(&low) && ASCII_UPPERCASE.contains(&high);
    let separate = if encoding == Encoding::Latin1 { 0x100 } else { 0x80 };
    let ranges = class.ranges();
    let within = ranges.iter().filter(|(low, high)| *low < separate && !is_second_case(*low, *high)).count();
    let beyond = ranges.last().is_some_and(|(low, _)| *low >= separate);
    within + usize::from(beyond)
}
