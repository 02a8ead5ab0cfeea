//! Request paths to match, and paths to write into requests and redirects.
//!
//! Envoy acknowledges a path that no request can have (one with a query, or `/a/../b`, which Envoy normalises before
//! matching), and such a path never matches; a rewrite to `abc` is sent to the backend as `abc`. The rules for matches
//! are those of the HTTPPathMatch schema of Gateway API.

use super::Excerpt;

/// Longest path, in bytes (as in the Gateway API schema).
pub const PATH_BYTES_MAX: usize = 1024;

/// Reason why a path cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// The path does not start with a slash.
    #[error("path {path} must start with '/'")]
    Relative {
        /// The path.
        path: Excerpt,
    },
    /// A path longer than [`PATH_BYTES_MAX`].
    #[error("path {path} has {bytes} bytes; at most {PATH_BYTES_MAX} are allowed")]
    Long {
        /// The path.
        path: Excerpt,
        /// Length of the path.
        bytes: usize,
    },
    /// A query.
    #[error("path {path} contains '?': a path has no query; match it with queryParams")]
    Query {
        /// The path.
        path: Excerpt,
    },
    /// A fragment.
    #[error("path {path} contains '#': fragments are never sent by clients")]
    Fragment {
        /// The path.
        path: Excerpt,
    },
    /// A sequence that path normalisation removes.
    #[error("path {path} contains {sequence:?}, which is not allowed: it never occurs in a normalised path")]
    Sequence {
        /// The path.
        path: Excerpt,
        /// The sequence, for example `//`.
        sequence: &'static str,
    },
    /// An ending that path normalisation removes.
    #[error("path {path} ends with {ending:?}, which is not allowed: it never occurs in a normalised path")]
    Ending {
        /// The path.
        path: Excerpt,
        /// `/.` or `/..`.
        ending: &'static str,
    },
    /// A percent sign without a valid escape sequence.
    #[error("path {path} contains '%' without two hexadecimal digits after it; write \"%25\" for the sign itself")]
    Escape {
        /// The path.
        path: Excerpt,
    },
    /// A character that is not allowed in paths.
    #[error(
        "path {path} contains {character:?}; allowed are letters, digits, percent escapes and any of -._~!$&'()*+,;=:@/"
    )]
    Character {
        /// The path.
        path: Excerpt,
        /// The first character that is not allowed.
        character: char,
    },
}

/// Checks the value of an exact or prefix path match.
pub fn matched(path: &str) -> Result<(), PathFault> {
    absolute(path)?;
    dots(path)?;
    for sequence in ["//", "%2f", "%2F"] {
        if path.contains(sequence) {
            return Err(PathFault::Sequence { path: Excerpt::new(path), sequence });
        }
    }
    characters(path)
}

/// Checks `replaceFullPath` of a rewrite or redirect.
///
/// Encoded slashes are allowed: nothing is matched against this path. Dot segments are refused: Envoy sends them
/// unchanged, and a backend that resolves them leaves the path of the route.
pub fn full_replacement(path: &str) -> Result<(), PathFault> {
    absolute(path)?;
    dots(path)?;
    characters(path)
}

/// Checks the replacement of a regular expression in a path: `\\1` to `\\9` are groups. A query is allowed.
pub fn regex_replacement(pattern: &str, substitution: &str) -> Result<(), PathFault> {
    dots(substitution)?;
    // A replacement of the beginning is the beginning of the new path.
    let begins = substitution.is_empty() || substitution.starts_with(['/', '\\']);
    if pattern.starts_with('^') && !begins {
        return Err(PathFault::Relative { path: Excerpt::new(substitution) });
    }
    if substitution.contains('#') {
        return Err(PathFault::Fragment { path: Excerpt::new(substitution) });
    }
    match substitution.chars().find(|character| !character.is_ascii_graphic()) {
        Some(character) => Err(PathFault::Character { path: Excerpt::new(substitution), character }),
        None => Ok(()),
    }
}

/// Checks a prefix that is added to the path of requests to another server; a query may begin in the prefix.
pub fn front(path: &str) -> Result<(), PathFault> {
    absolute(path)?;
    dots(path)?;
    characters(&path.replacen('?', "", 1))
}

fn dots(path: &str) -> Result<(), PathFault> {
    for sequence in ["/./", "/../"] {
        if path.contains(sequence) {
            return Err(PathFault::Sequence { path: Excerpt::new(path), sequence });
        }
    }
    for ending in ["/..", "/."] {
        if path.ends_with(ending) {
            return Err(PathFault::Ending { path: Excerpt::new(path), ending });
        }
    }
    Ok(())
}

/// Checks `replacePrefixMatch` of a rewrite or redirect; an empty text removes the prefix.
pub fn prefix_replacement(path: &str) -> Result<(), PathFault> {
    if path.is_empty() { Ok(()) } else { full_replacement(path) }
}

fn absolute(path: &str) -> Result<(), PathFault> {
    if path.len() > PATH_BYTES_MAX {
        return Err(PathFault::Long { path: Excerpt::new(path), bytes: path.len() });
    }
    if !path.starts_with('/') {
        return Err(PathFault::Relative { path: Excerpt::new(path) });
    }
    Ok(())
}

fn characters(path: &str) -> Result<(), PathFault> {
    let mut rest = path.chars();
    while let Some(character) = rest.next() {
        match character {
            '?' => return Err(PathFault::Query { path: Excerpt::new(path) }),
            '#' => return Err(PathFault::Fragment { path: Excerpt::new(path) }),
            '%' => {
                let digits = rest.by_ref().take(2).filter(char::is_ascii_hexdigit).count();
                if digits != 2 {
                    return Err(PathFault::Escape { path: Excerpt::new(path) });
                }
            }
            character if character.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/".contains(character) => {}
            character => return Err(PathFault::Character { path: Excerpt::new(path), character }),
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn everyday_paths_match() {
        for good in ["/", "/a", "/a/", "/a/b.c/d~e", "/a%20b", "/v1:batch", "/a/.b", "/a/..b", "/a;v=1", "/@x,y"] {
            assert!(matched(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn paths_that_never_match_are_refused() {
        for bad in [
            "", "a", "a/b", "//", "/a//b", "/a/./b", "/a/../b", "/a/..", "/a/.", "/.", "/..", "/a%2fb", "/a%2Fb",
            "/a?b", "/a#b", "/a b", "/ä", "/a\n", "/a%", "/a%2", "/a%zz", "/a\\b", "/a[b", "/\"", "/<", "/`", "/{x}",
            "/|", "/^",
        ] {
            assert!(matched(bad).is_err(), "{bad:?}");
        }
        assert!(matched(&format!("/{}", "a".repeat(1023))).is_ok());
        assert!(matched(&format!("/{}", "a".repeat(1024))).is_err());
    }

    #[test]
    fn replacements_are_absolute_paths() {
        assert!(full_replacement("/x%2Fy").is_ok());
        for bad in ["", "abc", "/abc#d", "/abc?d", "/a\r\nb", "/a b", "/a/../b", "/a/./b", "/a/.."] {
            assert!(full_replacement(bad).is_err(), "{bad:?}");
        }
        assert!(prefix_replacement("").is_ok());
        assert!(prefix_replacement("abc").is_err());
    }

    #[test]
    fn substitutions_make_request_targets() {
        for good in ["/x", "", r"\1/x", "/x?y=z"] {
            assert!(regex_replacement("^/a", good).is_ok(), "{good:?}");
        }
        assert!(regex_replacement("/a", "x").is_ok(), "it need not be at the beginning");
        for bad in ["x", "/x#y", "/x y", "/a/../b", "/\u{e4}"] {
            assert!(regex_replacement("^/a", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_path_prefix_of_an_external_service_may_begin_a_query() {
        for good in ["/auth", "/auth?", "/auth?rule="] {
            assert!(front(good).is_ok(), "{good:?}");
        }
        for bad in ["auth", "/a#b", "/a b", "/a??", "/a/../b"] {
            assert!(front(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn errors_name_what_to_change() {
        assert_eq!(matched("abc").unwrap_err().to_string(), "path \"abc\" must start with '/'");
        assert_eq!(
            matched("/a?b").unwrap_err().to_string(),
            "path \"/a?b\" contains '?': a path has no query; match it with queryParams"
        );
    }

    proptest! {
        #[test]
        fn what_matches_may_also_be_written(path in "/[ -~]{0,12}") {
            if matched(&path).is_ok() {
                prop_assert!(full_replacement(&path).is_ok());
            }
        }

        #[test]
        fn checks_never_panic(path in ".*") {
            let _ = (matched(&path), full_replacement(&path), prefix_replacement(&path), front(&path));
        }
    }
}
