//! Check whether one request can match both of two matches.
//!
//! If the result cannot be determined, it is yes: of a regular expression, only the literal prefix is compared.

use std::borrow::Cow;

use holdfast_check::re2;
use holdfast_envoy::model::{Match, NamedMatch, PathMatch, ValueMatch};

/// Checks whether one request can match both matches.
pub(super) fn may_meet(a: &Match, b: &Match) -> bool {
    let methods = match (&a.method, &b.method) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    methods && paths(&a.path, &b.path) && conditions(&a.headers, &b.headers) && conditions(&a.query, &b.query)
}

/// The paths that a match accepts.
enum Paths<'a> {
    /// Exactly one path.
    One(&'a str),
    /// A path and all paths below it.
    Below(&'a str),
    /// All paths that begin with a text.
    Text(Cow<'a, str>),
}

fn of(path: &PathMatch) -> Paths<'_> {
    match path {
        PathMatch::Exact(path) => Paths::One(path),
        PathMatch::Prefix(prefix) => Paths::Below(prefix.trim_end_matches('/')),
        PathMatch::Regex(pattern) => Paths::Text(re2::literal_prefix(pattern).into()),
        PathMatch::Text(text) => Paths::Text(Cow::Borrowed(text)),
    }
}

/// Checks whether every path that a match accepts is a prefix or below it, by whole segments.
pub(super) fn is_below(path: &PathMatch, prefix: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    let is_rest = |rest: &str| rest.starts_with('/');
    match of(path) {
        Paths::One(path) | Paths::Below(path) => {
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || is_rest(rest))
        }
        Paths::Text(text) => text.strip_prefix(prefix).is_some_and(is_rest),
    }
}

fn paths(a: &PathMatch, b: &PathMatch) -> bool {
    let below = |path: &str, prefix: &str| {
        path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match (of(a), of(b)) {
        (Paths::One(a), Paths::One(b)) => a == b,
        (Paths::One(path), Paths::Below(prefix)) | (Paths::Below(prefix), Paths::One(path)) => below(path, prefix),
        (Paths::One(path), Paths::Text(text)) | (Paths::Text(text), Paths::One(path)) => path.starts_with(&*text),
        (Paths::Below(a), Paths::Below(b)) => below(a, b) || below(b, a),
        (Paths::Below(prefix), Paths::Text(text)) | (Paths::Text(text), Paths::Below(prefix)) => {
            prefix.starts_with(&*text) || text.starts_with(prefix)
        }
        (Paths::Text(a), Paths::Text(b)) => a.starts_with(&*b) || b.starts_with(&*a),
    }
}

/// Checks that the conditions do not require different values of one name.
fn conditions(a: &[NamedMatch], b: &[NamedMatch]) -> bool {
    let differ = |a: &NamedMatch, b: &NamedMatch| match (&a.value, &b.value) {
        (ValueMatch::Exact(one), ValueMatch::Exact(other)) => a.name == b.name && one != other,
        _ => false,
    };
    !a.iter().any(|a| b.iter().any(|b| differ(a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_meet() {
        let (exact, prefix) = (|t: &str| PathMatch::Exact(t.into()), |t: &str| PathMatch::Prefix(t.into()));
        let (regex, text) = (|t: &str| PathMatch::Regex(t.into()), |t: &str| PathMatch::Text(t.into()));
        let rows = [
            (exact("/a"), exact("/a"), true),
            (exact("/a"), exact("/b"), false),
            (exact("/a/b"), prefix("/a"), true),
            (exact("/ab"), prefix("/a"), false),
            (exact("/a"), prefix("/"), true),
            (prefix("/a"), prefix("/a/b"), true),
            (prefix("/a"), prefix("/ab"), false),
            (prefix("/a/"), prefix("/"), true),
            (regex("/a/[0-9]+"), prefix("/a"), true),
            (regex("/a/[0-9]+"), prefix("/b"), false),
            (regex(".*"), exact("/b"), true),
            (text("/a"), prefix("/ab"), true),
            (text("/a"), text("/b"), false),
        ];
        for (a, b, expected) in rows {
            assert_eq!(paths(&a, &b), expected, "{a:?} and {b:?}");
            assert_eq!(paths(&b, &a), expected, "{b:?} and {a:?}");
        }
    }
}
