//! Does an earlier version of a route protect as much as the desired one?
//!
//! An earlier version that lacks a filter which the desired version names must not stand in for it: the filter may be
//! there for a reason that is newer. Asked rule by rule, as they are written; a rule with a name answers to the one of
//! that name, others to the one at their place.

use std::collections::BTreeSet;

use gateway_api::httproutes::{HttpRouteRulesFilters as Filter, HttpRouteRulesFiltersRequestRedirectScheme as Scheme};

use super::world::FALLBACK_ANNOTATION;
use super::{listener_protection, policy_protection, proxy_protection};
use crate::apis::Body;
use crate::apis::gateway::grpc_route::GrpcRule;
use crate::apis::gateway::http_route::HttpRule;
use crate::apis::gateway::route::{Route, Rule, RuleEntry};
use crate::object::Object;

/// The value of the annotation by which a policy's earlier lists of who may enter may stand in.
const LAST_VALID: &str = "last-valid";

/// See the module. `host_is_filtered`: has a host of an HTTPProxy a filter of addresses?
pub(crate) fn is_kept(desired: &Object, last: &Body, host_is_filtered: bool) -> bool {
    let annotation = desired.metadata.annotations.get(FALLBACK_ANNOTATION);
    let trusted = annotation.is_some_and(|value| value == LAST_VALID);
    match (&desired.body, last) {
        (Body::TrafficPolicy(now), Body::TrafficPolicy(last)) => policy_protection::is_kept(now, last, trusted),
        (Body::ListenerPolicy(now), Body::ListenerPolicy(last)) => listener_protection::is_kept(now, last, trusted),
        (Body::HttpRoute(desired), Body::HttpRoute(last)) => kept(&http(desired), &http(last)),
        (Body::GrpcRoute(desired), Body::GrpcRoute(last)) => kept(&grpc(desired), &grpc(last)),
        (Body::HttpProxy(desired), Body::HttpProxy(last)) => proxy_protection::is_kept(desired, last, host_is_filtered),
        _ => true,
    }
}

fn http(route: &Route<HttpRule>) -> Vec<Protection<'_>> {
    protections(&route.rules, |rule| rule.name.as_deref())
}

fn grpc(route: &Route<GrpcRule>) -> Vec<Protection<'_>> {
    protections(&route.rules, |rule| rule.name.as_deref())
}

/// A rule: what it asks for, and what does as much.
#[derive(Default)]
struct Protection<'a> {
    name: Option<&'a str>,
    asked: BTreeSet<String>,
    done: BTreeSet<String>,
}

fn kept(desired: &[Protection<'_>], last: &[Protection<'_>]) -> bool {
    desired.iter().enumerate().filter(|(_, rule)| !rule.asked.is_empty()).all(|(index, rule)| {
        let counterpart = match rule.name {
            Some(name) => last.iter().find(|other| other.name == Some(name)),
            None => last.get(index).filter(|other| other.name.is_none()),
        };
        counterpart.is_some_and(|other| rule.asked.is_subset(&other.done))
    })
}

fn protections<'a, R: Rule>(rules: &'a [RuleEntry<R>], name: impl Fn(&'a R) -> Option<&'a str>) -> Vec<Protection<'a>> {
    let one = |entry: &'a RuleEntry<R>| match entry {
        RuleEntry::Decoded(rule) => {
            let mut protection = Protection { name: name(rule), ..Protection::default() };
            rule.filters().iter().for_each(|filter| note(filter, &mut protection));
            note_backends(rule, &mut protection);
            protection
        }
        RuleEntry::Broken { name, .. } => Protection { name: name.as_deref(), ..Protection::default() },
    };
    rules.iter().map(one).collect()
}

fn note(filter: &Filter, protection: &mut Protection<'_>) {
    let mut asked = Vec::new();
    if filter.cors.is_some() {
        asked.push("cors".to_owned());
    }
    if filter.request_redirect.as_ref().is_some_and(|redirect| redirect.scheme == Some(Scheme::Https)) {
        asked.push("https".to_owned());
    }
    let request = |name: &str| format!("request {}", name.to_ascii_lowercase());
    let response = |name: &str| format!("response {}", name.to_ascii_lowercase());
    if let Some(edits) = &filter.request_header_modifier {
        asked.extend(edits.remove.iter().flatten().map(|name| request(name)));
        // What a client sends is overwritten: as good as taken away.
        protection.done.extend(edits.set.iter().flatten().map(|header| request(&header.name)));
    }
    if let Some(edits) = &filter.response_header_modifier {
        asked.extend(edits.remove.iter().flatten().map(|name| response(name)));
        protection.done.extend(edits.set.iter().flatten().map(|header| response(&header.name)));
    }
    protection.done.extend(asked.iter().cloned());
    protection.asked.extend(asked);
}

/// Headers that no back end gets from clients: taken away before each of them, if not by the rule.
fn note_backends<R: Rule>(rule: &R, protection: &mut Protection<'_>) {
    let removed = |filters: &[Filter]| -> BTreeSet<String> {
        let edits = filters.iter().filter_map(|filter| filter.request_header_modifier.as_ref());
        edits.flat_map(|edits| edits.remove.iter().flatten()).map(|name| name.to_ascii_lowercase()).collect()
    };
    let of_each = rule.backends().iter().map(|backend| removed(backend.filters.as_deref().unwrap_or_default()));
    let of_all = of_each.reduce(|one, other| one.intersection(&other).cloned().collect()).unwrap_or_default();
    protection.asked.extend(of_all.iter().map(|name| format!("before back ends {name}")));
    let by_rule = protection.done.iter().filter_map(|name| name.strip_prefix("request ").map(str::to_owned));
    let done: Vec<String> = of_all.into_iter().chain(by_rule).map(|name| format!("before back ends {name}")).collect();
    protection.done.extend(done);
}
