//! Which requests a match that delegates gives to the routes below it: its own, without those of the matches before it.
//!
//! Each match is prepared once, because all matches of one route are compared with all matches of others. The prepared
//! form is not kept in claims: it may contain compiled expressions.

use std::collections::{BTreeSet, HashMap};

use holdfast_envoy::model::Match;
use holdfast_envoy::model::containment::RequestSet;

use crate::outcome::delegation::RouteDelegation;

/// Matches, each prepared once for comparisons.
pub(super) struct PreparedMatches<'a>(HashMap<&'a Match, RequestSet<'a>>);

impl<'a> PreparedMatches<'a> {
    /// Prepares the matches of delegations.
    pub(super) fn of(delegations: impl IntoIterator<Item = &'a RouteDelegation>) -> Self {
        let mut prepared = HashMap::new();
        for delegation in delegations {
            for matches in delegation.kept.iter().chain([&delegation.within]) {
                let matches: &Match = matches;
                prepared.entry(matches).or_insert_with(|| RequestSet::new(matches));
            }
        }
        Self(prepared)
    }

    /// Returns the requests that a delegation gives; `None` if it is not among those that were prepared.
    pub(super) fn given(&self, delegation: &RouteDelegation) -> Option<GivenRequests<'_>> {
        let within = self.0.get(&*delegation.within)?;
        let kept = delegation.kept.iter().filter_map(|matches| self.0.get(&**matches));
        Some(GivenRequests { within, kept: kept.filter(|kept| !kept.is_disjoint(within)).collect() })
    }
}

/// The requests that a match gives to the routes below it.
pub(super) struct GivenRequests<'p> {
    within: &'p RequestSet<'p>,
    kept: Vec<&'p RequestSet<'p>>,
}

impl GivenRequests<'_> {
    /// Returns whether the requests of a match below are given to that match.
    pub(super) fn contain(&self, inner: &RequestSet<'_>) -> bool {
        inner.is_within(self.within) && !self.kept.iter().any(|kept| inner.is_within(kept))
    }
}

/// Returns those matches of a route, by their index in the order of precedence, that would give the requests of some
/// match below. Each match comes with the index of its rule.
pub(super) fn giving<'m>(all: impl Iterator<Item = (usize, &'m Match)>, below: &[Match]) -> BTreeSet<usize> {
    let all: Vec<(usize, RequestSet<'_>)> = all.map(|(rule, matches)| (rule, RequestSet::new(matches))).collect();
    let mut giving = BTreeSet::new();
    for inner in below.iter().map(RequestSet::new) {
        let mut around = all.iter().enumerate().filter(|(_, (_, outer))| inner.is_within(outer)).peekable();
        // Behind a match of another rule nothing is given: that rule keeps the requests.
        let Some(first) = around.peek().map(|(_, (rule, _))| *rule) else { continue };
        giving.extend(around.take_while(|(_, (rule, _))| *rule == first).map(|(index, _)| index));
    }
    giving
}

#[cfg(test)]
mod tests {
    use holdfast_envoy::model::PathMatch;

    use super::*;

    fn prefixes(paths: &[&str]) -> Vec<Match> {
        let prefix = |path: &&str| Match { path: PathMatch::Prefix((*path).into()), ..Match::any() };
        paths.iter().map(prefix).collect()
    }

    #[test]
    fn matches_of_one_rule_give_requests_until_another_rule_keeps_them() {
        let all = prefixes(&["/a/b/c", "/a/b", "/a", "/x", "/"]);
        let rules = [0, 0, 1, 0, 0];
        let giving = |paths: &[&str]| -> Vec<usize> {
            giving(rules.into_iter().zip(&all), &prefixes(paths)).into_iter().collect()
        };
        assert_eq!(giving(&["/a/b/c/d"]), [0, 1]);
        assert_eq!(giving(&["/a/other"]), [2]);
        assert_eq!(giving(&["/x/y"]), [3, 4]);
        assert_eq!(giving(&["/a/b/z", "/z"]), [1, 4]);
        assert_eq!(giving(&[]), [0; 0]);
    }
}
