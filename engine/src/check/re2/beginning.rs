//! The part of a regex that can be read where the whole cannot.
//!
//! It narrows what stands in for a path regex without a literal beginning: `/(shop|cart)/[0-9` can be read up to the
//! class, and every path that it was meant for begins with a match of `/(shop|cart)/`.

use super::tree::{Node, Unary};
use super::{Limits, check, parse, prefix, scan};

/// How often a beginning is shortened because its program is too large; each time by a quarter.
const TRIES_MAX: usize = 40;

/// What is known of the texts that a regex is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    /// A regex for their beginnings. With `.*` or less after it Envoy takes it.
    pub pattern: String,
    /// So many characters each beginning has at least.
    pub told: usize,
}

/// A piece of a pattern: a character, a class, an operator, a parenthesis.
#[derive(Clone, Copy)]
struct Piece {
    end: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Open,
    Close,
    Operator,
    Other,
}

/// The longest beginning that can be read, given that Envoy matches the whole text. `None` where it tells nothing.
///
/// What follows it may be anything. So an alternative must not be cut off, nor a group of which a later operator says
/// that it may be absent; then the beginning ends before that group. As for
/// [`literal_prefix`](super::literal_prefix), groups and classes are as they are written, and an open one reaches to
/// the end.
pub fn beginning(pattern: &str, limits: Limits) -> Option<Beginning> {
    let latin1: String = pattern.bytes().map(char::from).collect();
    let (pieces, failed_at) = read(&latin1);
    let mut count = pieces.len();
    // An operator that cannot be read may still have been meant to take away what is before it.
    if failed_at.is_some_and(|rest| rest.starts_with(['*', '+', '?', '{'])) {
        count = before_operand(&pieces, count.checked_sub(1)?);
    }
    for _ in 0..TRIES_MAX {
        count = settled(pattern, &pieces, count)?;
        let end = end(&pieces, count);
        let open = ")".repeat(open_groups(&pieces, count).len());
        let pattern = format!("(?:{}{open})", pattern.get(..end)?);
        if check(&format!("{pattern}.*"), limits).is_ok() {
            let latin1: String = pattern.bytes().map(char::from).collect();
            let told = parse::parse(&latin1).map_or(0, |read| least(&read.node));
            return (told > 0).then_some(Beginning { pattern, told });
        }
        count -= count.div_ceil(4);
    }
    None
}

/// The pieces that can be read, and what is left where one cannot.
fn read(pattern: &str) -> (Vec<Piece>, Option<&str>) {
    let mut pieces = Vec::new();
    let mut parser = parse::Steps::new(pattern);
    loop {
        let before = parser.rest();
        match parser.step() {
            None => return (pieces, None),
            Some(Err(_)) => return (pieces, Some(before)),
            Some(Ok(operator)) => {
                let text = scan::between(before, parser.rest());
                let kind = match text.chars().next() {
                    _ if operator => Kind::Operator,
                    Some('(') if !text.ends_with(')') => Kind::Open,
                    Some(')') => Kind::Close,
                    _ => Kind::Other,
                };
                // As bytes of what was written: there every character of the text is one.
                let end = pattern.chars().count() - parser.rest().chars().count();
                pieces.push(Piece { end, kind });
            }
        }
    }
}

fn end(pieces: &[Piece], count: usize) -> usize {
    count.checked_sub(1).and_then(|last| pieces.get(last)).map_or(0, |piece| piece.end)
}

/// The places of the parentheses that are open after so many pieces.
fn open_groups(pieces: &[Piece], count: usize) -> Vec<usize> {
    let mut open = Vec::new();
    for (place, piece) in pieces.iter().take(count).enumerate() {
        match piece.kind {
            Kind::Open => open.push(place),
            Kind::Close => drop(open.pop()),
            Kind::Operator | Kind::Other => {}
        }
    }
    open
}

/// The number of pieces before the one at a place, or before the whole group that ends there.
fn before_operand(pieces: &[Piece], place: usize) -> usize {
    match pieces.get(place).map(|piece| piece.kind) {
        Some(Kind::Close) => open_groups(pieces, place).last().copied().unwrap_or_default(),
        _ => place,
    }
}

/// At most so many pieces, so that what follows takes nothing of them away.
fn settled(pattern: &str, pieces: &[Piece], mut count: usize) -> Option<usize> {
    loop {
        if count == 0 || pattern.get(..end(pieces, count)).is_none() {
            count = count.checked_sub(1).filter(|count| *count > 0)?;
            continue;
        }
        if pieces.get(count).is_some_and(|next| next.kind == Kind::Operator) {
            count = before_operand(pieces, count - 1);
            continue;
        }
        let open = open_groups(pieces, count);
        let rest = pattern.get(end(pieces, count)..).unwrap_or_default();
        match prefix::unsettled(rest, open.len()) {
            None => return Some(count),
            // An alternative outside of all groups.
            Some(0) => return None,
            Some(level) => count = open.get(level - 1).copied()?,
        }
    }
}

/// The characters that a match has at least.
fn least(node: &Node) -> usize {
    match node {
        Node::NoMatch | Node::Empty | Node::Look(_) | Node::Unary { operator: Unary::Star | Unary::Quest, .. } => 0,
        Node::Literal { .. } | Node::Class(_) | Node::AnyChar | Node::AnyByte => 1,
        Node::String { bytes, .. } => bytes.len(),
        Node::Unary { operator: Unary::Plus, sub, .. } | Node::Capture(sub) => least(sub),
        Node::Repeat { sub, minimum, .. } => least(sub).saturating_mul(*minimum as usize),
        Node::Concat(subs) => subs.iter().map(least).fold(0, usize::saturating_add),
        Node::Alternate(subs) => subs.iter().map(least).min().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(pattern: &str) -> Option<(String, usize)> {
        beginning(pattern, Limits::default()).map(|found| (found.pattern, found.told))
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
            // What is before an operator may be absent.
            ("[/]a(bc)?[", "(?:[/]a(bc)?)", 2),
            ("[/]ab(cd)**", "(?:[/]ab)", 3),
            ("[/]abc**", "(?:[/]ab)", 3),
            ("[/]ab(/v1{5,1})?/c", "(?:[/]ab)", 3),
            // No alternative is cut off.
            ("/a|/b[", "(?:/a|/b)", 2),
            ("[/]a(/v{5,1}|/w)/c", "(?:[/]a)", 2),
            ("[/]a(/v|/w{5,1})/c", "(?:[/]a(/v|/))", 3),
            ("[/]é[", "(?:[/]é)", 3),
        ] {
            assert_eq!(told(pattern), Some((beginning.to_owned(), characters)), "{pattern}");
        }
    }

    #[test]
    fn nothing_where_nothing_is_told() {
        for pattern in ["", "[", "[a-z", "(/a|", "([/]?)[", ".*[", "/a)|b", "(a{5,1}|/b)", "(?P<n", "\\", "x**"] {
            assert_eq!(told(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn what_is_too_large_is_shortened() {
        let limits = Limits { program_size: 500 };
        let found = beginning("[/]shop/[a-z]{1,400}/[a-z]{1,400}", limits);
        let fits = |found: &Beginning| check(&format!("{}.*", found.pattern), limits).is_ok();
        assert!(found.as_ref().is_some_and(|found| fits(found) && found.told >= 5), "{found:?}");
    }

    proptest! {
        /// What a regex matches is matched by the beginning of the same regex with something broken after it.
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
                prop_assert!(text.chars().count() >= found.told || !whole.is_match(&text), "{pattern} {found:?} {text}");
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
