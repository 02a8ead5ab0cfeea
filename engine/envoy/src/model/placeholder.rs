//! Placeholders of broken matches, and the requests that they keep from other routes.
//!
//! The position of a placeholder in its host alone is not enough: a regular expression, or a longer prefix with fewer
//! conditions, comes before it in the order of routes, although it is not narrower. Such a route is preceded by the
//! overlap of both: a route that answers the requests that both match like the placeholder does.

use std::cmp::{Ordering, Reverse};

use super::containment::RequestSet;
use super::{Like, Match, MatchedPart, NamedMatch, PathMatch, PathRank, Route, ValueMatch};

/// The rank of a path expression that cannot be read: before every expression of other routes, since its length means
/// nothing, and after exact paths.
pub const UNREADABLE_EXPRESSION: PathRank = PathRank::Regex(Reverse(usize::MAX));
/// The rank of a gRPC service or method that cannot be read.
pub const UNREADABLE_CALL: PathRank = PathRank::Grpc(Reverse(usize::MAX), Reverse(usize::MAX));

/// Facts about a match as written, of which a route is the placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// The rank of the path as written.
    pub path: PathRank,
    /// Whether a policy or a filter protects the broken unit, or may protect it. Then an equal match of another route
    /// is closed as well.
    pub is_guarded: bool,
}

/// Returns the rank of a route's path. Routes with a computed position are ranked by their match.
fn rank(route: &Route) -> PathRank {
    match (route.precedence.path, &route.matches.path) {
        (PathRank::Placed(_), PathMatch::Exact(_)) => PathRank::Exact,
        (PathRank::Placed(_), PathMatch::Regex(pattern)) => PathRank::Regex(Reverse(pattern.chars().count())),
        (PathRank::Placed(_), PathMatch::Prefix(text) | PathMatch::Text(text)) => {
            PathRank::Prefix(Reverse(text.chars().count()))
        }
        (rank, _) => rank,
    }
}

/// A route with its requests, prepared for comparisons with other routes of its host.
#[derive(Debug)]
pub struct ComparedRoute<'a> {
    /// The route.
    pub route: &'a Route,
    requests: RequestSet<'a>,
}

impl<'a> ComparedRoute<'a> {
    /// Prepares a route.
    pub fn new(route: &'a Route) -> Self {
        Self { route, requests: RequestSet::new(&route.matches) }
    }

    /// Returns the match of the requests that this placeholder keeps from a route before it: those that both match.
    /// `None` if the other route gets all of its requests.
    ///
    /// A route gets its requests if it precedes the broken match as written, if the two have no request in common, or
    /// if it is strictly narrower than the placeholder. A route with an equal match gets its requests unless the broken
    /// unit is guarded.
    pub fn overlap(&self, other: &Self) -> Option<Match> {
        let written = self.route.placeholder.as_ref()?;
        let is_same_unit = other.route.key == self.route.key && other.route.section == self.route.section;
        if other.route.placeholder.is_some() || is_same_unit || self.is_preceded(written, other.route) {
            return None;
        }
        let (own, others) = (&self.requests, &other.requests);
        if own.is_disjoint(others) {
            return None;
        }
        let is_equal = written.is_guarded && is_as_wide(own, others);
        (is_equal || !others.is_within(own)).then(|| both(own, others))
    }

    /// Returns whether another route precedes the match as written. With equal ranks, the older object has precedence;
    /// the requests of a guarded unit are closed.
    fn is_preceded(&self, written: &Placeholder, other: &Route) -> bool {
        let ranked = |path: PathRank, route: &Route| {
            let Match { method, headers, query, path: _, grpc: _ } = &route.matches;
            (path, method.is_none(), Reverse(headers.len()), Reverse(query.len()))
        };
        match ranked(rank(other), other).cmp(&ranked(written.path, self.route)) {
            Ordering::Less => true,
            Ordering::Equal => !written.is_guarded && other.precedence.age < self.route.precedence.age,
            Ordering::Greater => false,
        }
    }
}

/// Returns whether every request of a guarded placeholder is one of another match. The end of a segment does not count:
/// `/admin` as a text and as a prefix of segments are equal.
fn is_as_wide(own: &RequestSet<'_>, others: &RequestSet<'_>) -> bool {
    let is_same_text = match (&own.matches.path, &others.matches.path) {
        (PathMatch::Text(text), PathMatch::Prefix(segments)) => **text == *segments.trim_end_matches('/'),
        _ => false,
    };
    own.are_conditions_within(others) && (is_same_text || own.is_path_within(others))
}

/// Returns a match of the requests that both match. Where Envoy has no form for it, the path of the other match is left
/// out, so that the result covers more.
fn both(own: &RequestSet<'_>, others: &RequestSet<'_>) -> Match {
    let (path, condition) = both_paths(own, others);
    let union = |one: &[NamedMatch], other: &[NamedMatch]| -> Vec<NamedMatch> {
        let added = other.iter().filter(|condition| !one.contains(condition));
        one.iter().chain(added).cloned().collect()
    };
    let (own, others) = (own.matches, others.matches);
    let mut headers = union(&others.headers, &own.headers);
    headers.extend(condition);
    Match {
        path,
        method: others.method.clone().or_else(|| own.method.clone()),
        headers,
        query: union(&others.query, &own.query),
        grpc: own.grpc || others.grpc,
    }
}

/// Returns a path match and a condition on the path that together match the paths of both. The header `:path` includes
/// the query.
fn both_paths(own: &RequestSet<'_>, others: &RequestSet<'_>) -> (PathMatch, Option<NamedMatch>) {
    let (path, other) = (&own.matches.path, &others.matches.path);
    if others.is_path_within(own) {
        return (other.clone(), None);
    }
    if own.is_path_within(others) {
        return (path.clone(), None);
    }
    let value = match path {
        PathMatch::Text(text) => {
            ValueMatch::Like(Like { part: MatchedPart::Prefix, text: text.clone(), ignore_case: false })
        }
        PathMatch::Prefix(text) => {
            let segments = regex_syntax::escape(text.trim_end_matches('/'));
            ValueMatch::Regex(format!("{segments}([/?].*)?").into())
        }
        PathMatch::Regex(pattern) if own.is_open_ended() => ValueMatch::Regex(pattern.clone()),
        PathMatch::Regex(_) | PathMatch::Exact(_) => return (path.clone(), None),
    };
    (other.clone(), Some(NamedMatch::new(":path", value)))
}
