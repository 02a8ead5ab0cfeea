//! Readable beginning of an unreadable regex.
//!
//! The beginning narrows the stand-in for a path regex without a literal prefix: `/(shop|cart)/[0-9` can be read up to
//! the class, and every intended path begins with a match of `/(shop|cart)/`.

use std::collections::BTreeMap;

use super::encoding::Encoding;
use super::memo::{self, Memo};
use super::prefix::{Mark, Marks};
use super::tree::{RegexNode, Unary};
use super::{Limits, PATTERN_BYTES_MAX, STEPS_MAX, parse, scan};
use crate::meter::Meter;

/// Number of times that a beginning is shortened because its program is too large; each time by a quarter.
const TRIES_MAX: usize = 40;

/// Properties of the texts that a regex is intended for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    /// A regex for the beginnings of the texts. Envoy accepts it, also with `.*` or less after it.
    pub pattern: String,
    /// Minimum number of characters of a beginning.
    pub min_chars: usize,
}

/// A piece of a pattern: a character, a class, an operator or a parenthesis.
#[derive(Clone, Copy)]
struct Piece {
    end: usize,
    kind: PieceKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceKind {
    Open,
    Close,
    Operator,
    Other,
}

/// Computes [`Regexes::beginning`](super::Regexes::beginning), and returns the number of steps.
pub(super) fn counted(pattern: &str, limits: Limits) -> (Option<Beginning>, usize) {
    static BEGINNINGS: Memo<Option<Beginning>> = Memo::new();
    BEGINNINGS.get(pattern, limits, Encoding::Latin1, || computed(pattern, limits, OpenGroups::Closed))
}

/// Computes [`Regexes::beginning_without_open_groups`](super::Regexes::beginning_without_open_groups), and returns the
/// number of steps.
pub(super) fn counted_without_open_groups(pattern: &str, limits: Limits) -> (Option<Beginning>, usize) {
    static BEGINNINGS: Memo<Option<Beginning>> = Memo::new();
    BEGINNINGS.get(pattern, limits, Encoding::Latin1, || computed(pattern, limits, OpenGroups::LeftOut))
}

/// What becomes of the groups that are open at the end of a beginning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenGroups {
    Closed,
    LeftOut,
}

fn computed(pattern: &str, limits: Limits, groups: OpenGroups) -> (Option<Beginning>, usize) {
    let mut meter = Meter::new(STEPS_MAX);
    let latin1 = Encoding::Latin1.read(pattern);
    let outline = Outline::read(pattern, &latin1, &mut meter);
    let mut spent = pattern.len() + meter.spent();
    memo::took(spent);
    let found = longest(&outline, limits, groups, &mut spent);
    (found, spent)
}

fn longest(outline: &Outline<'_>, limits: Limits, groups: OpenGroups, spent: &mut usize) -> Option<Beginning> {
    let mut count = outline.readable()?;
    let tries = match groups {
        OpenGroups::Closed => TRIES_MAX,
        // A literal prefix is known as well: the search must not cost more than a check.
        OpenGroups::LeftOut if outline.is_readable => 0,
        OpenGroups::LeftOut => 1,
    };
    for _ in 0..tries {
        count = outline.settled(count)?;
        while groups == OpenGroups::LeftOut
            && let Some(outermost) = outline.open(count).last()
        {
            count = outline.settled(outermost)?;
        }
        let open = ")".repeat(outline.open(count).count());
        let pattern = format!("(?:{}{open})", outline.pattern.get(..outline.end(count))?);
        let (taken, steps) = super::counted(&format!("{pattern}.*"), limits, Encoding::Latin1);
        *spent += steps;
        if taken.is_ok() {
            let latin1 = Encoding::Latin1.read(&pattern);
            let known =
                parse::parse(&latin1, Encoding::Latin1, &mut Meter::new(STEPS_MAX)).map_or(0, |read| least(&read.node));
            return (known > 0).then_some(Beginning { pattern, min_chars: known });
        }
        if *spent > STEPS_MAX {
            return None;
        }
        count -= count.div_ceil(4);
    }
    None
}

/// The pieces of a pattern as far as the pattern can be read, and the marks of its groups in the rest.
struct Outline<'a> {
    pattern: &'a str,
    pieces: Vec<Piece>,
    /// For each number of pieces: the innermost group that is open after them, as the index of its parenthesis.
    inner: Vec<Option<usize>>,
    /// For each closing parenthesis: the index of the opening one.
    mates: BTreeMap<usize, usize>,
    /// Whether the unreadable part begins with an operator.
    operator_follows: bool,
    /// Whether the pattern can be read as a whole, so that only its size can be refused.
    is_readable: bool,
    /// Position of the last alternative outside of all groups.
    last_bar: Option<usize>,
    /// For the byte at which each group opens: the byte of its last alternative, or of its end where the group may be
    /// absent.
    unsettled: BTreeMap<usize, Option<usize>>,
}

impl<'a> Outline<'a> {
    /// Reads the pieces of a pattern, up to the maximum length of a regex.
    fn read(pattern: &'a str, latin1: &str, meter: &mut Meter) -> Self {
        let (mut pieces, mut end) = (Vec::new(), 0);
        let mut parser = parse::Steps::new(latin1, Encoding::Latin1, meter);
        let mut failed_at = None;
        while end <= PATTERN_BYTES_MAX {
            let before = parser.rest();
            match parser.step() {
                None => break,
                Some(Err(_)) => {
                    failed_at = Some(before);
                    break;
                }
                Some(Ok(operator)) => {
                    let text = scan::between(before, parser.rest());
                    let kind = match text.chars().next() {
                        _ if operator => PieceKind::Operator,
                        Some('(') if !text.ends_with(')') => PieceKind::Open,
                        Some(')') => PieceKind::Close,
                        _ => PieceKind::Other,
                    };
                    // Converts characters to bytes of the written pattern: each character of the Latin-1 text is one
                    // byte.
                    end += text.chars().count();
                    pieces.push(Piece { end, kind });
                }
            }
        }
        // An unreadable operator may still apply to the piece before it; so may an operator that is not read because
        // the pattern is too long.
        let is_operator = |rest: &str| rest.starts_with(['*', '+', '?', '{']);
        let operator_follows = is_operator(failed_at.unwrap_or(parser.rest()));
        let (mut inner, mut mates, mut stack) = (vec![None], BTreeMap::new(), Vec::new());
        for (place, piece) in pieces.iter().enumerate() {
            match piece.kind {
                PieceKind::Open => stack.push(place),
                PieceKind::Close => {
                    let mate = stack.pop();
                    mates.extend(mate.map(|mate| (place, mate)));
                }
                PieceKind::Operator | PieceKind::Other => {}
            }
            inner.push(stack.last().copied());
        }
        let (last_bar, unsettled) = unsettled(pattern);
        let is_readable = failed_at.is_none() && stack.is_empty();
        Self { pattern, pieces, inner, mates, operator_follows, is_readable, last_bar, unsettled }
    }

    /// Returns the number of pieces that remain valid whatever the unreadable part means.
    fn readable(&self) -> Option<usize> {
        let count = self.pieces.len();
        if self.operator_follows { Some(self.before_operand(count.checked_sub(1)?)) } else { Some(count) }
    }

    /// Returns the length of the first `count` pieces, in bytes.
    fn end(&self, count: usize) -> usize {
        count.checked_sub(1).and_then(|last| self.pieces.get(last)).map_or(0, |piece| piece.end)
    }

    /// Returns the groups that are open after `count` pieces, from the innermost outwards, as the indexes of their
    /// parentheses.
    fn open(&self, count: usize) -> impl Iterator<Item = usize> {
        let inner = |count: usize| self.inner.get(count).copied().flatten();
        std::iter::successors(inner(count), move |place| inner(*place))
    }

    /// Returns the number of pieces before the piece at an index, or before the whole group that ends there.
    fn before_operand(&self, place: usize) -> usize {
        match self.pieces.get(place).map(|piece| piece.kind) {
            Some(PieceKind::Close) => self.mates.get(&place).copied().unwrap_or_default(),
            _ => place,
        }
    }

    /// Returns the number of pieces, at most `count`, to which nothing that follows applies. The pieces that are cut
    /// off lie within groups that are closed then, so each group is visited only about once.
    fn settled(&self, mut count: usize) -> Option<usize> {
        loop {
            let end = self.end(count);
            if count == 0 || self.pattern.get(..end).is_none() {
                count = count.checked_sub(1).filter(|count| *count > 0)?;
                continue;
            }
            if self.pieces.get(count).is_some_and(|next| next.kind == PieceKind::Operator) {
                count = self.before_operand(count - 1);
                continue;
            }
            // An alternative outside of all groups.
            if self.last_bar.is_some_and(|bar| bar >= end) {
                return None;
            }
            let is_unsettled = |place: &usize| match self.unsettled.get(&self.end(*place)) {
                Some(last) => last.is_some_and(|last| last >= end),
                None => true,
            };
            match self.open(count).filter(is_unsettled).last() {
                None => return Some(count),
                Some(outermost) => count = outermost,
            }
        }
    }
}

/// Returns the position of the last alternative outside of all groups, and for each group the position of the last mark
/// before which the group must not be cut.
fn unsettled(pattern: &str) -> (Option<usize>, BTreeMap<usize, Option<usize>>) {
    let (mut last_bar, mut groups, mut stack) = (None, BTreeMap::new(), Vec::new());
    for (place, mark) in Marks::of(pattern) {
        match mark {
            Mark::Open => {
                stack.push(place);
                groups.insert(place, None);
            }
            Mark::Close { optional } => {
                if let Some(open) = stack.pop()
                    && optional
                {
                    groups.insert(open, Some(place));
                }
            }
            Mark::Bar => match stack.last() {
                Some(open) => drop(groups.insert(*open, Some(place))),
                None => last_bar = Some(place),
            },
        }
    }
    (last_bar, groups)
}

/// Returns the minimum number of characters of a match.
fn least(node: &RegexNode) -> usize {
    match node {
        RegexNode::NoMatch
        | RegexNode::Empty
        | RegexNode::Look(_)
        | RegexNode::Unary { operator: Unary::Star | Unary::Quest, .. } => 0,
        RegexNode::Literal { .. } | RegexNode::Class(_) | RegexNode::AnyChar | RegexNode::AnyByte => 1,
        RegexNode::String { runes, .. } => runes.len(),
        RegexNode::Unary { operator: Unary::Plus, sub, .. } | RegexNode::Capture(sub) => least(sub),
        RegexNode::Repeat { sub, minimum, .. } => least(sub).saturating_mul(*minimum as usize),
        RegexNode::Concat(subs) => subs.iter().map(least).fold(0, usize::saturating_add),
        RegexNode::Alternate(subs) => subs.iter().map(least).min().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(pattern: &str, limits: Limits) -> Result<super::super::Program, super::super::RegexFault> {
        super::super::counted(pattern, limits, Encoding::Latin1).0
    }

    fn beginning(pattern: &str, limits: Limits) -> Option<Beginning> {
        counted(pattern, limits).0
    }

    fn pattern_and_min_chars(pattern: &str) -> Option<(String, usize)> {
        beginning(pattern, Limits::default()).map(|found| (found.pattern, found.min_chars))
    }

    #[test]
    fn as_much_as_can_be_read() {
        for (pattern, beginning, characters) in [
            ("/(shop|cart)/[0-9", "(?:/(shop|cart)/)", 6),
            ("(/shop|/cart)/x(", "(?:(/shop|/cart)/x())", 7),
            ("(/shop|/cart", "(?:(/shop|/cart))", 5),
            (".*/admin/[", "(?:.*/admin/)", 7),
            ("[/]shop[", "(?:[/]shop)", 5),
            ("(?i)/shop[", "(?:(?i)/shop)", 5),
            ("/[a-z]{3}/{1,2000}", "(?:/[a-z]{3})", 4),
            // A piece before an operator may be absent.
            ("[/]a(bc)?[", "(?:[/]a(bc)?)", 2),
            ("[/]ab(cd)**", "(?:[/]ab)", 3),
            ("[/]abc**", "(?:[/]ab)", 3),
            ("[/]ab(/v1{5,1})?/c", "(?:[/]ab)", 3),
            // An alternative is never cut off.
            ("/a|/b[", "(?:/a|/b)", 2),
            ("[/]a(/v{5,1}|/w)/c", "(?:[/]a)", 2),
            ("[/]a(/v|/w{5,1})/c", "(?:[/]a(/v|/))", 3),
            ("[/]é[", "(?:[/]é)", 3),
        ] {
            assert_eq!(pattern_and_min_chars(pattern), Some((beginning.to_owned(), characters)), "{pattern}");
        }
    }

    #[test]
    fn open_groups_can_be_left_out() {
        for (pattern, beginning, characters) in [
            ("/api/v[12]/admin/[0-9", "(?:/api/v[12]/admin/)", 14),
            ("/users/[^/]+/admin(", "(?:/users/[^/]+/admin)", 14),
            ("/cart/items/(list", "(?:/cart/items/)", 12),
            ("/a/(b|(c/[0-9", "(?:/a/)", 3),
            ("/(shop|cart)/(x", "(?:/(shop|cart)/)", 6),
            ("/admins?/[0-9+", "(?:/admins?/)", 7),
        ] {
            let expected = Beginning { pattern: beginning.to_owned(), min_chars: characters };
            assert_eq!(counted_without_open_groups(pattern, Limits::default()).0, Some(expected), "{pattern}");
        }
        for pattern in ["(/shop|/cart", "/a/[0-9]{1000}[a-z]{1000}", "/a/(b|c)+"] {
            assert_eq!(counted_without_open_groups(pattern, Limits::default()).0, None, "{pattern}");
        }
    }

    #[test]
    fn unreadable_prefixes_give_no_beginning() {
        for pattern in ["", "[", "[a-z", "(/a|", "([/]?)[", ".*[", "/a)|b", "(a{5,1}|/b)", "(?P<n", "\\", "x**"] {
            assert_eq!(pattern_and_min_chars(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn what_is_too_large_is_shortened() {
        let limits = Limits { program_size: 500 };
        let found = beginning("[/]shop/[a-z]{1,400}/[a-z]{1,400}", limits);
        let fits = |found: &Beginning| check(&format!("{}.*", found.pattern), limits).is_ok();
        assert!(found.as_ref().is_some_and(|found| fits(found) && found.min_chars >= 5), "{found:?}");
    }

    proptest! {
        /// A text that matches a regex also matches the beginning of this regex with something broken after it.
        #[test]
        fn every_match_has_the_beginning(
            (pattern, text) in r"(/|a|b|[*?+|.]|\(|\)|\[ab\]|\{2\}|\\\.){0,10}"
                .prop_filter_map("no regex", |pattern| {
                    let matches = proptest::string::string_regex(&pattern).ok()?;
                    Some(matches.prop_map(move |text| (pattern.clone(), text)))
                })
                .prop_flat_map(|matches| matches),
            broken in prop::sample::select(vec!["[", "(", "**", "\\", "(?=a)", "{5,1}"]),
        ) {
            if check(&pattern, Limits::default()).is_ok()
                && let Some(found) = beginning(&format!("({pattern}){broken}"), Limits::default())
            {
                let whole = regex::Regex::new(&format!("^(?s:{}.*)$", found.pattern));
                let whole = whole.map_err(|why| TestCaseError::fail(why.to_string()))?;
                prop_assert!(whole.is_match(&text) || broken == "**" || broken == "{5,1}", "{pattern} {found:?} {text}");
                prop_assert!(text.chars().count() >= found.min_chars || !whole.is_match(&text), "{pattern} {found:?} {text}");
            }
        }

        #[test]
        fn never_panics(pattern in ".*") {
            let _ = beginning(&pattern, Limits::default());
        }

        #[test]
        fn never_panics_on_pieces(pattern in r"(/|a|é|[*?+|.]|\(|\)|\(\?i\)|\(\?:|\[ab\]|\[|\{2\}|\{5,1\}|\\|\\Q|\\E){0,16}") {
            let found = beginning(&pattern, Limits::default());
            let taken = |found: Beginning| check(&format!("{}.*", found.pattern), Limits::default()).is_ok();
            prop_assert!(found.is_none_or(taken));
        }
    }
}
