//! Containment of matches: whether every request of one match is a request of another, and whether two matches have no
//! request in common, as far as either can be proven from their text.
//!
//! The answers are conservative: `false` means that the relation does not hold or cannot be proven.

use std::cell::OnceCell;

use holdfast_check::re2::literal_prefix;
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Dot, Hir, HirKind, Look};

use super::{Match, NamedMatch, PathMatch, ValueMatch};

/// The end of an expression that matches every method of a gRPC service. The path of a call has two segments.
const ANY_METHOD: &str = "/[^/]+";

/// A match, prepared for comparisons with others.
#[derive(Debug)]
pub struct RequestSet<'a> {
    /// The match.
    pub matches: &'a Match,
    paths: PathSet<'a>,
    /// Each path begins with one of these texts.
    beginnings: Vec<String>,
    /// The expression of the path, compiled on its first use; unset if it is not one.
    regex: OnceCell<Option<regex::Regex>>,
    /// Whether the expression of the path is open-ended, computed on first use.
    open_ended: OnceCell<bool>,
    /// The expressions of the headers, then those of the query parameters, each compiled on its first use.
    values: Vec<OnceCell<Option<regex::Regex>>>,
}

/// The paths of a match.
#[derive(Clone, Copy, Debug)]
enum PathSet<'a> {
    /// One path.
    Exact(&'a str),
    /// Every path that begins with the text.
    Text(&'a str),
    /// The path itself, and every path below it.
    Segments(&'a str),
    /// Every path that the expression matches.
    Regex(&'a str),
}

impl<'a> PathSet<'a> {
    fn of(path: &'a PathMatch) -> Self {
        match path {
            PathMatch::Exact(text) => Self::Exact(text),
            PathMatch::Text(text) => Self::Text(text),
            PathMatch::Regex(pattern) => Self::Regex(pattern),
            PathMatch::Prefix(text) => match text.trim_end_matches('/') {
                "" => Self::Text("/"),
                segments => Self::Segments(segments),
            },
        }
    }

    /// Returns texts of which each path begins with one.
    fn beginnings(self) -> Vec<String> {
        match self {
            Self::Exact(text) | Self::Text(text) | Self::Segments(text) => vec![text.to_owned()],
            Self::Regex(pattern) => beginnings(pattern).unwrap_or_else(|| vec![literal_prefix(pattern)]),
        }
    }
}

/// Returns texts of which each text that the expression matches begins with one; `None` if there is no such finite set.
fn beginnings(pattern: &str) -> Option<Vec<String>> {
    let literals = Extractor::new().extract(&regex_syntax::parse(pattern).ok()?);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    literals.literals()?.iter().map(|literal| text(literal.as_bytes())).collect()
}

impl<'a> RequestSet<'a> {
    /// Prepares a match.
    pub fn new(matches: &'a Match) -> Self {
        let paths = PathSet::of(&matches.path);
        let values = matches.headers.iter().chain(&matches.query).map(|_| OnceCell::new()).collect();
        let (regex, open_ended) = (OnceCell::new(), OnceCell::new());
        Self { matches, paths, beginnings: paths.beginnings(), regex, open_ended, values }
    }

    /// Returns whether every request of this match is a request of the other.
    pub fn is_within(&self, other: &Self) -> bool {
        self.are_conditions_within(other) && self.is_path_within(other)
    }

    /// Returns whether every path of this match is a path of the other.
    pub fn is_path_within(&self, other: &Self) -> bool {
        let all = |holds: &dyn Fn(&str) -> bool| self.beginnings.iter().all(|beginning| holds(beginning));
        match (self.paths, other.paths) {
            (_, PathSet::Text("/")) => true,
            (_, PathSet::Text(text)) => all(&|beginning| beginning.starts_with(text)),
            (PathSet::Exact(path) | PathSet::Segments(path), PathSet::Segments(segments)) => {
                is_at_or_below(path, segments)
            }
            (PathSet::Text(_) | PathSet::Regex(_), PathSet::Segments(segments)) => {
                all(&|beginning| is_below(beginning, segments))
            }
            (PathSet::Exact(path), PathSet::Exact(another)) => path == another,
            (_, PathSet::Exact(_)) => false,
            (PathSet::Regex(pattern), PathSet::Regex(another)) if pattern == another => true,
            (PathSet::Exact(path), PathSet::Regex(_)) => other.matches_whole(path),
            (PathSet::Text(text), PathSet::Regex(pattern)) if self.matches.grpc && text.ends_with('/') => {
                pattern.ends_with(ANY_METHOD) && other.matches_whole(&format!("{text}Method"))
            }
            (_, PathSet::Regex(_)) => other.is_open_ended() && all(&|beginning| other.matches_whole(beginning)),
        }
    }

    fn matches_whole(&self, text: &str) -> bool {
        let PathSet::Regex(pattern) = self.paths else { return false };
        self.regex.get_or_init(|| whole(pattern)).as_ref().is_some_and(|regex| regex.is_match(text))
    }

    /// Returns whether the path is an expression that ends with `.*`, so that it matches every continuation of a text
    /// that it matches. An assertion such as `\b` may depend on the continuation.
    pub fn is_open_ended(&self) -> bool {
        *self.open_ended.get_or_init(|| matches!(self.paths, PathSet::Regex(pattern) if is_open_ended(pattern)))
    }

    /// Returns whether every request that fulfils the conditions of this match fulfils those of the other, apart from
    /// the path.
    pub fn are_conditions_within(&self, other: &Self) -> bool {
        let (inner, outer) = (self.matches, other.matches);
        let (of_headers, of_query) = other.values.split_at(outer.headers.len().min(other.values.len()));
        let all = |outer: &[NamedMatch], regexes: &[OnceCell<_>], inner: &[NamedMatch]| {
            let mut outer = outer.iter().zip(regexes);
            outer.all(|(wanted, regex)| inner.iter().any(|known| implies(known, wanted, regex)))
        };
        (outer.method.is_none() || outer.method == inner.method)
            && (!outer.grpc || inner.grpc)
            && all(&outer.headers, of_headers, &inner.headers)
            && all(&outer.query, of_query, &inner.query)
    }

    /// Returns whether no request has both matches.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        let contradict = |one: &[NamedMatch], other: &[NamedMatch]| {
            one.iter().any(|one| other.iter().any(|other| is_contradiction(one, other)))
        };
        let methods = self.matches.method.as_ref().zip(other.matches.method.as_ref());
        methods.is_some_and(|(one, other)| one != other)
            || self.is_path_disjoint(other)
            || contradict(&self.matches.headers, &other.matches.headers)
            || contradict(&self.matches.query, &other.matches.query)
    }

    /// Returns whether no path is a path of both.
    fn is_path_disjoint(&self, other: &Self) -> bool {
        match (self.paths, other.paths) {
            (PathSet::Exact(path), PathSet::Exact(another)) => path != another,
            (PathSet::Segments(segments), PathSet::Segments(another)) => {
                !is_at_or_below(segments, another) && !is_at_or_below(another, segments)
            }
            (PathSet::Segments(segments), _) => other.is_apart_from_segments(segments),
            (_, PathSet::Segments(segments)) => self.is_apart_from_segments(segments),
            _ => self.beginnings.iter().all(|one| {
                other.beginnings.iter().all(|other| !one.starts_with(&**other) && !other.starts_with(&**one))
            }),
        }
    }

    /// Returns whether no path is one of the segments or below them.
    fn is_apart_from_segments(&self, segments: &str) -> bool {
        let goes_on = |beginning: &str| !matches!(self.paths, PathSet::Exact(_)) && segments.starts_with(beginning);
        self.beginnings.iter().all(|beginning| !goes_on(beginning) && !is_at_or_below(beginning, segments))
    }
}

fn is_at_or_below(path: &str, segments: &str) -> bool {
    path == segments || is_below(path, segments)
}

fn is_below(path: &str, segments: &str) -> bool {
    path.strip_prefix(segments).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns whether an expression ends with `.*` and has no assertions that depend on what follows.
fn is_open_ended(pattern: &str) -> bool {
    let Ok(parsed) = regex_syntax::parse(pattern) else { return false };
    let HirKind::Concat(parts) = parsed.kind() else { return false };
    let has_assertions = parsed.properties().look_set().iter().any(|look| look != Look::Start);
    !has_assertions
        && parts.last().is_some_and(|last| match last.kind() {
            HirKind::Repetition(all) => all.min == 0 && all.max.is_none() && *all.sub == Hir::dot(Dot::AnyCharExceptLF),
            _ => false,
        })
}

/// Compiles an expression that matches whole texts.
fn whole(pattern: &str) -> Option<regex::Regex> {
    regex::Regex::new(&format!("^(?:{pattern})$")).ok()
}

/// Returns whether a condition implies another; the expression of the other one is compiled once.
fn implies(known: &NamedMatch, wanted: &NamedMatch, compiled: &OnceCell<Option<regex::Regex>>) -> bool {
    let is_plain = |condition: &NamedMatch| !condition.inverted && !condition.missing_is_empty;
    let is_implied = || match (&known.value, &wanted.value) {
        (_, ValueMatch::Present) => true,
        (ValueMatch::Exact(text), ValueMatch::Regex(pattern)) => {
            compiled.get_or_init(|| whole(pattern)).as_ref().is_some_and(|regex| regex.is_match(text))
        }
        _ => false,
    };
    known == wanted || (known.name == wanted.name && is_plain(known) && is_plain(wanted) && is_implied())
}

fn is_contradiction(one: &NamedMatch, other: &NamedMatch) -> bool {
    match (&one.value, &other.value) {
        (ValueMatch::Exact(value), ValueMatch::Exact(another)) => {
            one.name == other.name && value != another && !one.inverted && !other.inverted
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Match {
        let path = match (text.strip_prefix('='), text.strip_prefix('~'), text.strip_suffix("/...")) {
            (Some(exact), _, _) => PathMatch::Exact(exact.into()),
            (_, Some(pattern), _) => PathMatch::Regex(pattern.into()),
            (_, _, Some(segments)) => PathMatch::Prefix(segments.into()),
            _ => PathMatch::Text(text.into()),
        };
        Match { path, ..Match::any() }
    }

    #[test]
    fn paths_within_paths() {
        let rows = [
            ("/admin/", "/admin/...", true),
            ("/admin", "/admin/...", false),
            ("/admin/...", "/admin", true),
            ("/admin/...", "/admin/", false),
            ("/admin/x/...", "/admin/", true),
            ("=/admin/5", "/admin/", true),
            ("=/admin", "/admin/...", true),
            ("=/admins", "/admin/...", false),
            ("~/admin/[0-9]+", "/admin/...", true),
            ("~/admin[0-9]+", "/admin/...", false),
            ("~.*\\.php", "/", true),
            ("~.*\\.php", "/a", false),
            ("/shop/x", "~(?:/(shop|cart)/).*", true),
            ("/shop/x/...", "~(?:/(shop|cart)/).*", true),
            ("/shop/...", "~(?:/(shop|cart)/).*", false),
            ("/shop/x", "~/shop/x|/cart.*", false),
            ("=/shop/x", "~/shop/x|/cart.*", true),
            ("/a\\", "~/a\\\\.*", true),
            ("/a", "~/a\\.*", false),
            ("/a", "~^/a.*", true),
            ("/a", "~/a\\b.*", false),
        ];
        for (inner, outer, is_within) in rows {
            let (one, other) = (path(inner), path(outer));
            let found = RequestSet::new(&one).is_path_within(&RequestSet::new(&other));
            assert_eq!(found, is_within, "{inner} in {outer}");
        }
    }

    #[test]
    fn disjoint_paths() {
        let rows = [
            ("/admin/", "/admin/...", false),
            ("/adminx", "/admin/...", true),
            ("/adm", "/admin/...", false),
            ("=/adm", "/admin/...", true),
            ("=/admin/1", "/admin/...", false),
            ("~/adminx.*", "/admin/...", true),
            ("~/a.*", "/admin/...", false),
            ("~.*", "/admin", false),
            ("/a", "/b", true),
            ("/a/...", "/ab/...", true),
            ("/a/...", "/a/b/...", false),
            ("~(?:(/blue|/green)).*", "/third/...", true),
            ("~(?:(/blue|/green)).*", "/blue/...", false),
            ("~(?:(/blue|/green)).*", "/bl", false),
        ];
        for (one, other, disjoint) in rows {
            let (left, right) = (path(one), path(other));
            let (left, right) = (RequestSet::new(&left), RequestSet::new(&right));
            assert_eq!(left.is_path_disjoint(&right), disjoint, "{one} and {other}");
            assert_eq!(right.is_path_disjoint(&left), disjoint, "{other} and {one}");
        }
    }

    #[test]
    fn services_within_expressions() {
        let within = |service: &str, pattern: &str| {
            let one = Match { grpc: true, ..path(service) };
            let other = Match { grpc: true, ..path(pattern) };
            RequestSet::new(&one).is_path_within(&RequestSet::new(&other))
        };
        assert!(within("/shop.v1.Open/", "~/(?:(shop|cart)\\.v1\\.)[^/]*/[^/]+"));
        assert!(!within("/shop.v2.Open/", "~/(?:(shop|cart)\\.v1\\.)[^/]*/[^/]+"));
        assert!(!within("/shop.v1.Open/", "~/(?:(shop|cart)\\.v1\\.)[^/]*/Get[^/]*"));
    }

    #[test]
    fn conditions_within_conditions() {
        let with = |value: Option<ValueMatch>| Match {
            headers: value.into_iter().map(|value| NamedMatch::new("x-a", value)).collect(),
            ..Match::any()
        };
        let is_within = |one: &Match, other: &Match| RequestSet::new(one).is_within(&RequestSet::new(other));
        let are_disjoint = |one: &Match, other: &Match| RequestSet::new(one).is_disjoint(&RequestSet::new(other));
        let (exact, regex) = (ValueMatch::Exact("5".into()), ValueMatch::Regex("[0-9]+".into()));
        assert!(is_within(&with(Some(exact.clone())), &with(Some(ValueMatch::Present))));
        assert!(is_within(&with(Some(exact.clone())), &with(Some(regex.clone()))));
        assert!(is_within(&with(Some(regex.clone())), &with(None)));
        assert!(!is_within(&with(None), &with(Some(ValueMatch::Present))));
        assert!(!is_within(&with(Some(regex)), &with(Some(exact.clone()))));
        assert!(are_disjoint(&with(Some(exact.clone())), &with(Some(ValueMatch::Exact("6".into())))));
        assert!(!are_disjoint(&with(Some(exact)), &with(Some(ValueMatch::Present))));
    }
}
