//! Matches of an earlier version of a route that is served instead of the desired version: they yield where the desired
//! version does not claim them.
//!
//! A last valid version supplies the content of rules; the desired version determines the claims. A match that the
//! desired version gave up ranks after all claimed matches of its host. Where the desired claim itself is unusable, or
//! has a regular expression that an Envoy may have refused, the last valid match keeps its rank and loses to equal
//! matches.

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::route::{GatewayRoute, RuleEntry};
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_check::re2::Regexes;
use holdfast_envoy::model::{Match, PathMatch, Precedence, ValueMatch};
use serde_json::Value;

use super::rule::Outcome;
use super::{grpc, http};
use crate::narrowing::{self, Ranked};

/// The claims of the desired version of a route, of which an earlier version is served.
pub(super) struct DesiredClaims {
    /// The matches that can be used.
    claimed: Vec<Match>,
    /// Whether a claim of each rule may be unusable.
    falls_back: Vec<bool>,
}

impl DesiredClaims {
    /// Reads the claims of a desired version; `None` for other kinds.
    pub(super) fn of(desired: &Object, settings: &Settings) -> Option<Self> {
        let regexes = Regexes::of_object(narrowing::limits(settings));
        let today = match &desired.body {
            Body::HttpRoute(route) => rules(
                route,
                |index, rule| http::read(index, rule, &regexes).matches,
                |matches| http::salvage(matches, &regexes),
            ),
            Body::GrpcRoute(route) => rules(
                route,
                |index, rule| grpc::read(index, rule, &regexes).matches,
                |matches| grpc::salvage(matches, &regexes),
            ),
            _ => return None,
        };
        let falls_back = today.iter().map(|matches| matches.iter().any(may_be_unusable)).collect();
        let usable = today.into_iter().flatten().filter(|ranked| !ranked.narrowed);
        Some(Self { claimed: usable.map(|ranked| ranked.matches).collect(), falls_back })
    }

    /// Ranks a match of a rule of the earlier version.
    pub(super) fn rank(&self, index: usize, matches: &Match, precedence: &mut Precedence) {
        if self.claimed.contains(matches) {
            return;
        }
        match self.falls_back.get(index).is_some_and(|falls_back| *falls_back) {
            true => precedence.narrowed = true,
            false => precedence.lent = true,
        }
    }
}

/// Ranks the routes of an earlier version, one outcome for each rule, by the claims of the desired version.
pub(crate) fn give_way(outcomes: &mut [Outcome], desired: &Object, settings: &Settings) {
    let Some(today) = DesiredClaims::of(desired, settings) else { return };
    for (index, Outcome { routes, bare, .. }) in outcomes.iter_mut().enumerate() {
        for route in routes.iter_mut().chain(bare) {
            today.rank(index, &route.matches, &mut route.precedence);
        }
    }
}

/// Returns whether a claim may be unusable, as far as this is known without Envoy.
fn may_be_unusable(ranked: &Ranked) -> bool {
    let Match { path, headers, query, method: _, grpc: _ } = &ranked.matches;
    let has_regex = || headers.iter().chain(query).any(|named| matches!(named.value, ValueMatch::Regex(_)));
    ranked.narrowed || matches!(path, PathMatch::Regex(_)) || has_regex()
}

/// Returns the desired matches of each rule.
fn rules<R>(
    route: &GatewayRoute<R>,
    read: impl Fn(usize, &R) -> Vec<Ranked>,
    salvage: impl Fn(&[Value]) -> Vec<Ranked>,
) -> Vec<Vec<Ranked>> {
    let matches = |(index, entry): (usize, &RuleEntry<R>)| match entry {
        RuleEntry::Decoded(rule) => read(index, rule),
        RuleEntry::Broken { matches, .. } => salvage(matches),
    };
    route.rules.iter().enumerate().map(matches).collect()
}
