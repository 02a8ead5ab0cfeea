//! Narrowed conditions of a route that Envoy refuses for an unknown reason. The remaining conditions determine the
//! rank, so that narrower routes of other objects keep their requests.

use std::collections::BTreeSet;

use holdfast_envoy::model::{NamedMatch, PathMatch, PathRank, ValueMatch};

use crate::httpproxy::order::RouteOrigin;
use crate::httpproxy::path::Path;
use crate::httpproxy::rewrite::Served;
use crate::narrowing;

/// Keeps only conditions that cannot be the reason of the refusal.
pub(super) fn narrow(served: &mut Served<'_>) {
    let conditions = &mut served.conditions;
    let (path, origin) = match &conditions.path {
        Path::Exact(text) | Path::Prefix(text) if narrowing::usable(text) == &**text => {
            (conditions.path.clone(), RouteOrigin::Placeholder)
        }
        Path::Regex(pattern) => left(narrowing::literal_path(pattern)),
        Path::Exact(text) | Path::Prefix(text) => left(narrowing::path(text)),
    };
    let present = |conditions: &BTreeSet<NamedMatch>| -> BTreeSet<NamedMatch> {
        let kept = conditions.iter().filter(|condition| !condition.inverted);
        kept.map(|condition| NamedMatch::new(condition.name.clone(), ValueMatch::Present)).collect()
    };
    (conditions.headers, conditions.query) = (present(&conditions.headers), present(&conditions.query));
    conditions.path = path;
    let has_conditions = !conditions.headers.is_empty() || !conditions.query.is_empty();
    // The name of an implicit route depends on its `origin`.
    if !matches!(served.origin, RouteOrigin::Last | RouteOrigin::Implicit) {
        served.origin = if has_conditions { RouteOrigin::Placeholder } else { origin };
    }
}

fn left((path, rank): (PathMatch, PathRank)) -> (Path, RouteOrigin) {
    let origin = if rank == PathRank::Last { RouteOrigin::Last } else { RouteOrigin::Placeholder };
    match path {
        PathMatch::Text(text) | PathMatch::Prefix(text) | PathMatch::Exact(text) => (Path::Prefix(text), origin),
        PathMatch::Regex(pattern) => (Path::Regex(pattern), origin),
    }
}
