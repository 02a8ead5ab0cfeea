//! Narrowed conditions of a route that Envoy refuses for an unknown reason. The remaining conditions determine the
//! rank, so that narrower routes of other objects keep their requests.

use std::collections::BTreeSet;

use crate::model::{NamedMatch, PathMatch, PathRank, ValueMatch};
use crate::proxies::order::Standing;
use crate::proxies::path::Path;
use crate::proxies::rewrite::Served;
use crate::translate::narrow;

/// Keeps only conditions that cannot be the reason of the refusal.
pub(super) fn narrow(served: &mut Served<'_>) {
    let conditions = &mut served.conditions;
    let (path, standing) = match &conditions.path {
        Path::Exact(text) | Path::Prefix(text) if narrow::usable(text) == &**text => {
            (conditions.path.clone(), Standing::Placeholder)
        }
        Path::Regex(pattern) => left(narrow::literal_path(pattern)),
        Path::Exact(text) | Path::Prefix(text) => left(narrow::path(text)),
    };
    let present = |conditions: &BTreeSet<NamedMatch>| -> BTreeSet<NamedMatch> {
        let kept = conditions.iter().filter(|condition| !condition.inverted);
        kept.map(|condition| NamedMatch::new(condition.name.clone(), ValueMatch::Present)).collect()
    };
    (conditions.headers, conditions.query) = (present(&conditions.headers), present(&conditions.query));
    conditions.path = path;
    let tells = !conditions.headers.is_empty() || !conditions.query.is_empty();
    // The name of an implicit route depends on its rank (`standing`).
    if !matches!(served.standing, Standing::Last | Standing::Implicit) {
        served.standing = if tells { Standing::Placeholder } else { standing };
    }
}

fn left((path, rank): (PathMatch, PathRank)) -> (Path, Standing) {
    let standing = if rank == PathRank::Last { Standing::Last } else { Standing::Placeholder };
    match path {
        PathMatch::Text(text) | PathMatch::Prefix(text) | PathMatch::Exact(text) => (Path::Prefix(text), standing),
        PathMatch::Regex(pattern) => (Path::Regex(pattern), standing),
    }
}
