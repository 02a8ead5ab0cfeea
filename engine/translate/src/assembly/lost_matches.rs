//! Matches at a host that an older route object also has, and that therefore get no requests.

use std::collections::{BTreeMap, HashMap};

use holdfast_api::section::ObjectSection;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_envoy::model::{Match, NamedMatch, PathMatch};
use holdfast_graph::ObjectKey;

use crate::httpproxy;
use crate::outcome::route::Rendered;

/// A match that an older object also has at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LostMatch {
    pub(crate) loser: ObjectKey,
    /// The match, as in `rules[0].matches[1]`.
    pub(crate) section: String,
    pub(crate) winner: ObjectKey,
}

/// The lost matches of a fleet, by host; hosts without any are left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostMatches(BTreeMap<(TableName, Host), Vec<LostMatch>>);

impl LostMatches {
    /// Sets the lost matches of a host.
    pub(crate) fn set(&mut self, table: &TableName, host: &Host, lost: Vec<LostMatch>) {
        let place = (table.clone(), host.clone());
        match lost.is_empty() {
            true => self.0.remove(&place),
            false => self.0.insert(place, lost),
        };
    }

    /// Removes the hosts of a table.
    pub(crate) fn remove_table(&mut self, table: &TableName) {
        self.0.retain(|(name, _), _| name != table);
    }

    /// Returns all lost matches with their places, in order.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&(TableName, Host), &LostMatch)> {
        self.0.iter().flat_map(|(place, lost)| lost.iter().map(move |one| (place, one)))
    }
}

/// Returns the lost matches of the routes of a host, which are in order. A host with routes of one object has none, so
/// that matches are compared at few hosts.
pub(crate) fn lost_matches<'a>(routes: impl Iterator<Item = &'a Rendered>) -> Vec<LostMatch> {
    let routes: Vec<_> = routes.filter(|rendered| !httpproxy::is_proxy(&rendered.route.key)).collect();
    let Some(owner) = routes.first().map(|rendered| &rendered.route.key) else { return Vec::new() };
    if routes.iter().all(|rendered| rendered.route.key == *owner) {
        return Vec::new();
    }
    let mut first: HashMap<CanonicalMatch<'_>, &Rendered> = HashMap::new();
    let lost = routes.into_iter().filter_map(|rendered| {
        let loser = &rendered.route.key;
        let winner = *first.entry(CanonicalMatch::new(&rendered.route.matches)).or_insert(rendered);
        let lost =
            || LostMatch { loser: loser.clone(), section: section_of(rendered), winner: winner.route.key.clone() };
        // The rule of a route that delegates answers only what the routes below leave.
        let is_below = |one: &Rendered, other: &ObjectKey| {
            one.delegated().is_some_and(|of| of.chain.iter().any(|(above, _)| above == other))
        };
        let is_delegated = is_below(winner, loser) || is_below(rendered, &winner.route.key);
        (winner.route.key != *loser && !is_delegated).then(lost)
    });
    let mut lost: Vec<LostMatch> = lost.collect();
    // The routes with shares of one match follow each other.
    lost.dedup();
    lost
}

/// The conditions of a route in a canonical order.
#[derive(PartialEq, Eq, Hash)]
struct CanonicalMatch<'a> {
    path: &'a PathMatch,
    method: Option<&'a str>,
    headers: Vec<&'a NamedMatch>,
    query: Vec<&'a NamedMatch>,
    grpc: bool,
}

impl<'a> CanonicalMatch<'a> {
    fn new(matches: &'a Match) -> Self {
        let Match { path, method, headers, query, grpc } = matches;
        let sorted = |list: &'a [NamedMatch]| {
            let mut list: Vec<&NamedMatch> = list.iter().collect();
            list.sort_unstable();
            list
        };
        Self { path, method: method.as_deref(), headers: sorted(headers), query: sorted(query), grpc: *grpc }
    }
}

/// Returns the match that a route is, as in `rules[0].matches[1]`.
fn section_of(rendered: &Rendered) -> String {
    let precedence = &rendered.route.precedence;
    format!("{}.matches[{}]", ObjectSection::Rule(precedence.rule), precedence.entry)
}
