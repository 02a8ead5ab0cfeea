//! The literal text that every match of a path regex starts with.

use super::scan;

/// The literal text with which every path starts that the regex matches, given that Envoy matches the whole path.
///
/// It narrows what stands in for a regex that RE2 cannot read, so the regex is read piece by piece and only as far
/// as it is plain: up to the first character that means something, without the last character if an operator
/// follows that may take it away. With an alternative outside of all groups and classes there is no such text, and
/// the result is empty. In a regex that is broken, "outside" is as written: an open group or class reaches to the end.
pub fn literal_prefix(pattern: &str) -> String {
    if has_top_level_bar(pattern) {
        return String::new();
    }
    // Both ends are anchored anyway.
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

/// Takes one literal character, plain or escaped, off the pattern.
fn literal(rest: &mut &str) -> Option<char> {
    match rest.chars().next()? {
        '\\' => {
            let mut tail = *rest;
            let is_literal = rest.chars().nth(1).is_some_and(|next| next.is_ascii() && !next.is_ascii_alphanumeric());
            let byte = scan::escape(&mut tail).ok().filter(|_| is_literal)?;
            *rest = tail;
            Some(char::from(byte))
        }
        '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' => None,
        _ => scan::take(rest),
    }
}

/// Whether there is an alternative outside of groups and classes.
fn has_top_level_bar(pattern: &str) -> bool {
    unsettled(pattern, 0).is_some()
}

/// Of the groups that are open where this rest of a pattern begins: the outermost with another alternative in the rest,
/// or that may be absent. Groups are counted from 1; 0 stands for an alternative outside of all of them.
pub(super) fn unsettled(mut rest: &str, open: usize) -> Option<usize> {
    // The groups that are open, and those of them that were so at the beginning.
    let (mut depth, mut enclosing) = (open, open);
    let mut outermost: Option<usize> = None;
    while let Some(character) = scan::take(&mut rest) {
        match character {
            '\\' if rest.starts_with('Q') => {
                rest = rest.split_once("\\E").map_or("", |(_, tail)| tail);
            }
            '\\' => {
                scan::take(&mut rest);
            }
            '[' => skip_class(&mut rest),
            '(' => depth += 1,
            ')' => {
                if depth > 0 && depth == enclosing {
                    if rest.starts_with(['*', '?', '{']) {
                        outermost = Some(depth);
                    }
                    enclosing -= 1;
                }
                // A parenthesis too many is what may be wrong with the regex; what follows it is outside.
                depth = depth.saturating_sub(1);
            }
            '|' if depth == enclosing => outermost = Some(depth),
            _ => {}
        }
    }
    outermost
}

/// Goes behind the end of a class whose opening bracket was taken.
fn skip_class(rest: &mut &str) {
    *rest = rest.strip_prefix('^').unwrap_or(rest);
    *rest = rest.strip_prefix(']').unwrap_or(rest);
    while let Some(character) = scan::take(rest) {
        match character {
            ']' => return,
            '\\' => {
                scan::take(rest);
            }
            '[' if rest.starts_with(':') => {
                if let Some((_, tail)) = rest.split_once(":]") {
                    *rest = tail;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        }
    }
}
