//! Rewrites of the tree before compilation, as in RE2.
//!
//! Counted repetitions stay counted here (RE2 expands them): the compiler makes the copies, so that the tree does not
//! grow or become deeper.

use super::tree::{Flags, Look, RegexNode, Unary};

/// Joins neighbours such as `a+a*`, then rewrites repetitions into `*`, `+` and `?` where they are equivalent.
pub(super) fn simplify(node: RegexNode) -> RegexNode {
    reduce(coalesce(node))
}

/// Joins runs of repetitions of one character, and the character itself.
fn coalesce(node: RegexNode) -> RegexNode {
    match node {
        RegexNode::Unary { operator, sub, flags } => {
            RegexNode::Unary { operator, sub: Box::new(coalesce(*sub)), flags }
        }
        RegexNode::Repeat { sub, minimum, maximum, flags } => {
            RegexNode::Repeat { sub: Box::new(coalesce(*sub)), minimum, maximum, flags }
        }
        RegexNode::Capture(sub) => RegexNode::Capture(Box::new(coalesce(*sub))),
        RegexNode::Alternate(subs) => RegexNode::Alternate(subs.into_iter().map(coalesce).collect()),
        RegexNode::Concat(subs) => RegexNode::Concat(join_neighbours(subs.into_iter().map(coalesce).collect())),
        leaf => leaf,
    }
}

fn join_neighbours(subs: Vec<RegexNode>) -> Vec<RegexNode> {
    let mut out: Vec<RegexNode> = Vec::with_capacity(subs.len());
    let mut joined = false;
    for sub in subs {
        match out.pop() {
            None => out.push(sub),
            Some(before) => match join(before, sub) {
                Ok(repeat) => {
                    joined = true;
                    out.extend(repeat);
                }
                Err((before, sub)) => out.extend([before, sub]),
            },
        }
    }
    if joined {
        // RE2 removes the empty pieces that its rewrite leaves, and those that were there before.
        out.retain(|sub| !matches!(sub, RegexNode::Empty));
    }
    out
}

/// Returns one node (or a repetition and the rest of a string) for two, or the two unchanged.
fn join(before: RegexNode, after: RegexNode) -> Result<Vec<RegexNode>, (RegexNode, RegexNode)> {
    let Some((minimum, maximum, flags, single)) = repetition(&before).filter(|(.., sub)| sub.is_single()) else {
        return Err((before, after));
    };
    let (more, most, rest) = match (&after, repetition(&after)) {
        (_, Some((more, most, other, sub)))
            if single.same(sub) && flags.has(Flags::NON_GREEDY) == other.has(Flags::NON_GREEDY) =>
        {
            (more, most, None)
        }
        (node, _) if single.same(node) => (1, Some(1), None),
        (RegexNode::String { runes, fold }, _) => {
            let same = match single {
                RegexNode::Literal { rune, fold: own } if own == fold => {
                    runes.iter().take_while(|other| *other == rune).count()
                }
                _ => 0,
            };
            let Some(count) = u32::try_from(same).ok().filter(|count| *count > 0) else {
                return Err((before, after));
            };
            let rest = RegexNode::literal(runes.get(same..).unwrap_or_default(), *fold);
            (count, Some(count), Some(rest).filter(|rest| !matches!(rest, RegexNode::Empty)))
        }
        _ => return Err((before, after)),
    };
    let maximum = maximum.zip(most).map(|(one, two)| one + two);
    let repeat = RegexNode::Repeat { sub: Box::new(single.clone()), minimum: minimum + more, maximum, flags };
    Ok(std::iter::once(repeat).chain(rest).collect())
}

/// Returns the bounds, flags and operand of a repetition of any kind.
fn repetition(node: &RegexNode) -> Option<(u32, Option<u32>, Flags, &RegexNode)> {
    match node {
        RegexNode::Unary { operator: Unary::Star, sub, flags } => Some((0, None, *flags, sub)),
        RegexNode::Unary { operator: Unary::Plus, sub, flags } => Some((1, None, *flags, sub)),
        RegexNode::Unary { operator: Unary::Quest, sub, flags } => Some((0, Some(1), *flags, sub)),
        RegexNode::Repeat { sub, minimum, maximum, flags } => Some((*minimum, *maximum, *flags, sub)),
        _ => None,
    }
}

/// Rewrites nodes that are not simple.
fn reduce(node: RegexNode) -> RegexNode {
    match node {
        RegexNode::Class(class) if class.is_empty() => RegexNode::NoMatch,
        RegexNode::Concat(subs) => RegexNode::Concat(subs.into_iter().map(reduce).collect()),
        RegexNode::Alternate(subs) => RegexNode::Alternate(subs.into_iter().map(reduce).collect()),
        RegexNode::Capture(sub) => RegexNode::Capture(Box::new(reduce(*sub))),
        RegexNode::Unary { operator, sub, flags } => match reduce(*sub) {
            RegexNode::Empty => RegexNode::Empty,
            RegexNode::Unary { operator: inner, sub, flags: inner_flags }
                if inner == operator && inner_flags == flags =>
            {
                RegexNode::Unary { operator, sub, flags }
            }
            sub if operator == Unary::Quest && is_optional_copies(&sub, flags) => sub,
            sub => RegexNode::Unary { operator, sub: Box::new(sub), flags },
        },
        RegexNode::Repeat { sub, minimum, maximum, flags } => match reduce(*sub) {
            RegexNode::Empty => RegexNode::Empty,
            sub => reduce_repeat(sub, minimum, maximum, flags),
        },
        leaf => leaf,
    }
}

/// Applies an operator to a node that may have an operator already: the same operator twice changes nothing, and any
/// two operators are `*`.
pub(super) fn squashed(operator: Unary, sub: RegexNode, flags: Flags) -> RegexNode {
    match sub {
        RegexNode::Unary { operator: inner, sub, flags: inner_flags } if inner_flags == flags => {
            let operator = if inner == operator { operator } else { Unary::Star };
            RegexNode::Unary { operator, sub, flags }
        }
        sub if is_optional_copies(&sub, flags) => match (operator, sub) {
            (Unary::Star | Unary::Plus, RegexNode::Repeat { sub, maximum: Some(most), flags, .. }) => {
                let rest = reduce_repeat(sub.as_ref().clone(), 0, Some(most - 1), flags);
                let sub = Box::new(RegexNode::Concat(vec![*sub, rest]));
                RegexNode::Unary { operator: Unary::Star, sub, flags }
            }
            (_, sub) => sub,
        },
        sub => RegexNode::Unary { operator, sub: Box::new(sub), flags },
    }
}

/// Returns whether a node, when expanded, is `(x(x)?)?`, with `?` at its top.
fn is_optional_copies(node: &RegexNode, flags: Flags) -> bool {
    matches!(node, RegexNode::Repeat { minimum: 0, maximum: Some(2..), flags: own, .. } if *own == flags)
}

fn reduce_repeat(sub: RegexNode, mut minimum: u32, mut maximum: Option<u32>, flags: Flags) -> RegexNode {
    // A condition that holds once holds any number of times.
    let is_condition = match &sub {
        RegexNode::Look(_) => true,
        RegexNode::Concat(subs) | RegexNode::Alternate(subs) => {
            subs.iter().all(|sub| matches!(sub, RegexNode::Look(_)))
        }
        _ => false,
    };
    if is_condition {
        minimum = minimum.min(1);
        maximum = maximum.map(|maximum| maximum.min(1));
    }
    match (minimum, maximum) {
        (0, None) => squashed(Unary::Star, sub, flags),
        (1, None) => squashed(Unary::Plus, sub, flags),
        (0, Some(0)) => RegexNode::Empty,
        (0, Some(1)) => squashed(Unary::Quest, sub, flags),
        (1, Some(1)) => sub,
        _ => RegexNode::Repeat { sub: Box::new(sub), minimum, maximum, flags },
    }
}

/// Maximum depth at which anchors are searched for.
const ANCHOR_DEPTH_MAX: usize = 4;

/// Removes a `^` that every match needs from the start of a regex; returns whether there was one.
pub(super) fn take_start_anchor(node: &mut RegexNode, depth: usize) -> bool {
    take_anchor(node, depth, true)
}

/// Removes a `$` that every match needs from the end of a regex; returns whether there was one.
pub(super) fn take_end_anchor(node: &mut RegexNode, depth: usize) -> bool {
    take_anchor(node, depth, false)
}

fn take_anchor(node: &mut RegexNode, depth: usize, start: bool) -> bool {
    if depth >= ANCHOR_DEPTH_MAX {
        return false;
    }
    match node {
        RegexNode::Look(Look::TextStart) if start => *node = RegexNode::Empty,
        RegexNode::Look(Look::TextEnd { .. }) if !start => *node = RegexNode::Empty,
        RegexNode::Concat(subs) => {
            let edge = if start { subs.first_mut() } else { subs.last_mut() };
            return edge.is_some_and(|edge| take_anchor(edge, depth + 1, start));
        }
        RegexNode::Capture(sub) => return take_anchor(sub, depth + 1, start),
        RegexNode::Repeat { sub, minimum, maximum, flags } => {
            // When expanded, a repetition is a concatenation of its copies, with optional copies after them.
            let optional = *maximum != Some(*minimum);
            if *minimum == 0 || *minimum == 1 && maximum.is_none() || optional && !start {
                return false;
            }
            let levels = if optional && maximum.is_some() && *minimum >= 2 { 2 } else { 1 };
            let mut edge = sub.as_ref().clone();
            if !take_anchor(&mut edge, depth + levels, start) {
                return false;
            }
            let rest = reduce_repeat(sub.as_ref().clone(), *minimum - 1, maximum.map(|most| most - 1), *flags);
            *node = RegexNode::Concat(if start { vec![edge, rest] } else { vec![rest, edge] });
        }
        _ => return false,
    }
    true
}
