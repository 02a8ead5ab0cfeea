//! Lower bound of the number of instructions of a program, computed before the program is built.

use super::class::ByteClass;
use super::tree::{RegexNode, Unary};

/// Instructions beside those of the regex, at least: the match, and the loop at the start of a regex without an anchor.
const AROUND: u64 = 1;

/// Returns the number of instructions that every form of the program has: those that read a byte, check a position or
/// mark a group. Branches are not counted, since flattening removes them. Copies are counted without being made.
pub(super) fn instructions(node: &RegexNode) -> u64 {
    of(node).map_or(0, |count| count.saturating_add(AROUND))
}

/// Returns `None` for a node that never matches, which leaves no instructions.
fn of(node: &RegexNode) -> Option<u64> {
    match node {
        RegexNode::NoMatch => None,
        RegexNode::Empty => Some(0),
        RegexNode::Literal { .. } | RegexNode::AnyChar | RegexNode::AnyByte | RegexNode::Look(_) => Some(1),
        RegexNode::String { bytes, .. } => Some(bytes.len() as u64),
        RegexNode::Class(class) => Some(class_ranges(class) as u64).filter(|count| *count > 0),
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
            subs.iter().filter_map(of).fold(None, |sum, count| Some(sum.unwrap_or(0_u64).saturating_add(count)))
        }
    }
}

/// Returns the number of ranges that need an instruction: of a class that contains both cases of each letter, only the
/// ranges of one case.
fn class_ranges(class: &ByteClass) -> usize {
    let folds = class.folds_ascii();
    class.ranges().iter().filter(|(low, high)| !(folds && b'A' <= *low && *high <= b'Z')).count()
}
