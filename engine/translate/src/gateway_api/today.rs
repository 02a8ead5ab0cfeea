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
use holdfast_envoy::model::{Match, PathMatch, ValueMatch};
use serde_json::Value;

use super::rule::Outcome;
use super::{grpc, http};
use crate::narrowing::{self, Ranked};

/// Ranks the routes of an earlier version, one outcome for each rule, by the claims of the desired version.
pub(crate) fn give_way(outcomes: &mut [Outcome], desired: &Object, settings: &Settings) {
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
        _ => return,
    };
    let usable = today.iter().flatten().filter(|ranked| !ranked.narrowed);
    let claimed: Vec<&Match> = usable.map(|ranked| &ranked.matches).collect();
    for (index, outcome) in outcomes.iter_mut().enumerate() {
        let falls_back = today.get(index).is_some_and(|matches| matches.iter().any(may_be_unusable));
        let Outcome { routes, bare, .. } = outcome;
        for route in routes.iter_mut().chain(bare).filter(|route| !claimed.contains(&&route.matches)) {
            match falls_back {
                true => route.precedence.narrowed = true,
                false => route.precedence.lent = true,
            }
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
