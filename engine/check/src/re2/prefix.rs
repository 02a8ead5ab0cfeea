//! Literal prefix of all matches of a path regex.

use super::encoding::Encoding;
use super::scan;

/// Returns the literal text at the start of every path that the regex matches, given that Envoy matches the whole path.
///
/// The prefix narrows the stand-in for a regex that RE2 cannot parse, so the regex is read piece by piece and only as
/// far as it is plain: up to the first special character, without the last character if an operator follows that may
/// make it absent. With an alternative outside of all groups and classes, there is no such text, and the result is
/// empty. In a broken regex, "outside" is as written: an open group or class extends to the end.
pub fn literal_prefix(pattern: &str) -> String {
    if has_top_level_bar(pattern) {
        return String::new();
    }
    // Both ends are anchored in any case.
    let mut rest = pattern.strip_prefix('^').unwrap_or(pattern);
    let mut prefix = String::new();
    while let Some(literal) = literal(&mut rest) {
        if rest.starts_with(['*', '?', '{']) {
            break;
        }
        prefix.push(literal);
    }
    prefix
}

/// Removes one literal character, plain or escaped, from the pattern.
fn literal(rest: &mut &str) -> Option<char> {
    match rest.chars().next()? {
        '\\' => {
            let mut tail = *rest;
            let is_literal = rest.chars().nth(1).is_some_and(|next| next.is_ascii() && !next.is_ascii_alphanumeric());
            let rune = scan::escape(&mut tail, Encoding::Latin1).ok().filter(|_| is_literal)?;
            *rest = tail;
            char::from_u32(rune)
        }
        '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' => None,
        _ => scan::take(rest),
    }
}

/// Returns whether there is an alternative outside of groups and classes.
fn has_top_level_bar(pattern: &str) -> bool {
    let mut depth: usize = 0;
    for (_, mark) in Marks::of(pattern) {
        match mark {
            Mark::Open => depth += 1,
            // The error of the regex may be an extra parenthesis; the text after it is outside.
            Mark::Close { .. } => depth = depth.saturating_sub(1),
            Mark::Bar if depth == 0 => return true,
            Mark::Bar => {}
        }
    }
    false
}

/// A mark that structures a pattern, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Open,
    /// The end of a group, which may be absent where an operator makes it optional.
    Close {
        optional: bool,
    },
    Bar,
}

/// The marks of a pattern outside of classes and quotes, each with the byte of its position. Every character is read
/// once, or twice where an end is searched for.
pub(super) struct Marks<'a> {
    pattern: &'a str,
    rest: &'a str,
    /// Whether a `:]` may still follow.
    names_end: bool,
}

impl<'a> Marks<'a> {
    pub(super) fn of(pattern: &'a str) -> Self {
        Self { pattern, rest: pattern, names_end: true }
    }

    /// Moves to the end of a class, after its opening bracket was read.
    fn skip_class(&mut self) {
        self.rest = self.rest.strip_prefix('^').unwrap_or(self.rest);
        self.rest = self.rest.strip_prefix(']').unwrap_or(self.rest);
        while let Some(character) = scan::take(&mut self.rest) {
            match character {
                ']' => return,
                '\\' => drop(scan::take(&mut self.rest)),
                '[' if self.names_end && self.rest.starts_with(':') => match self.rest.split_once(":]") {
                    Some((_, tail)) => self.rest = tail,
                    None => self.names_end = false,
                },
                _ => {}
            }
        }
    }
}

impl Iterator for Marks<'_> {
    type Item = (usize, Mark);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let place = self.pattern.len() - self.rest.len();
            match scan::take(&mut self.rest)? {
                '\\' if self.rest.starts_with('Q') => {
                    self.rest = self.rest.split_once("\\E").map_or("", |(_, tail)| tail);
                }
                '\\' => drop(scan::take(&mut self.rest)),
                '[' => self.skip_class(),
                '(' => return Some((place, Mark::Open)),
                ')' => return Some((place, Mark::Close { optional: self.rest.starts_with(['*', '?', '{']) })),
                '|' => return Some((place, Mark::Bar)),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stops_at_the_first_character_that_means_something() {
        for (pattern, prefix) in [
            ("/path/bad[", "/path/bad"),
            ("/path/bad(", "/path/bad"),
            ("/path/bad", "/path/bad"),
            ("^/path/bad$", "/path/bad"),
            ("/a.b", "/a"),
            (r"/a\.b[", "/a.b"),
            ("/ab*", "/a"),
            ("/ab?c[", "/a"),
            ("/ab{2}", "/a"),
            ("/ab+", "/ab"),
            (r"/a\.*", "/a"),
            (r"/a\d", "/a"),
            (r"/a\Qb", "/a"),
            (r"/a\", "/a"),
            ("/a|/b[", ""),
            ("/a(|/b", "/a"),
            ("/a(x|y)|/b", ""),
            ("/a(x|y)", "/a"),
            ("/a[|", "/a"),
            ("/a[]|]b", "/a"),
            ("/a[[:alpha:]|]b", "/a"),
            (r"/a\|b", "/a|b"),
            (r"/a\Q|\E", "/a"),
            ("/a)|b", ""),
            ("(?i)/a", ""),
            ("[", ""),
            ("", ""),
            ("/é[", "/é"),
        ] {
            assert_eq!(literal_prefix(pattern), prefix, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn every_match_starts_with_the_prefix(
            (pattern, text) in r"(/|a|b|\.|[*?+|.]|\(|\)|\[ab\]|\{2\}|\\\.){0,10}"
                .prop_filter_map("no regex", |pattern| {
                    let matches = proptest::string::string_regex(&pattern).ok()?;
                    Some(matches.prop_map(move |text| (pattern.clone(), text)))
                })
                .prop_flat_map(|matches| matches)
        ) {
            prop_assert!(text.starts_with(&literal_prefix(&pattern)), "{} matches {}", pattern, text);
        }

        #[test]
        fn never_panics(pattern in ".*") {
            let _ = literal_prefix(&pattern);
            prop_assert!(Marks::of(&pattern).count() <= pattern.len());
        }
    }
}
