//! A rule that delegates: requests that no other route takes get a direct response, and references without a route are
//! reported.
//!
//! The requests of the rule never go to a broader rule: 404 where every reference has a route, 500 where one has none.

use std::collections::BTreeSet;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::route::RuleEntry;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::object::Object;
use holdfast_api::section::ObjectSection;
use holdfast_api::settings::{Settings, body_for};
use holdfast_envoy::model::containment::RequestSet;
use holdfast_envoy::model::{Action, FixedResponse};
use holdfast_graph::{ObjectKey, Origins};

use super::super::rule::{Outcome, Place, ReadRule, answering, broken, not_enforced, reported};
use super::super::{http, weighted::BACKENDS_MAX};
use super::{DEPTH_MAX, accepts, flaws, is_attached, regexes, rule_of, unserved};
use crate::outcome::delegation::RouteSelection;
use crate::outcome::route::Replaced;
use crate::policy::route::Attached;
use crate::reader::Reader;

/// The status where every reference has a route, and none of them takes a request.
const NO_ROUTE: u16 = 404;
/// The body there: nothing is wrong with the configuration, so that the body for faults would mislead.
const NO_ROUTE_BODY: &str = "No route takes this request.";
/// The status where a reference has no route.
const MISSING_ROUTE: u16 = 500;

/// Translates a rule that delegates, of a route that is itself below the rules `above`.
pub(in super::super) fn translate(
    object: &Object,
    mut rule: ReadRule<'_>,
    (attached, above): (&Attached<'_>, &[(ObjectKey, usize)]),
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Outcome {
    let section = ObjectSection::Rule(rule.index).to_string();
    let field = format!("spec.{section}");
    let mut outcome = Outcome::default();
    let attached = attached.of_rule(object, rule.index, rule.name, &rule.filters.extensions, reader);
    outcome.faults.extend(attached.faults.iter().cloned());
    outcome.of_policies = (!attached.keys.is_empty()).then(|| attached.merged.origins.clone());
    outcome.policies.extend(attached.keys.iter().cloned());
    let origins = attached.keys.iter().fold(Origins::one(object.key.clone()), |all, key| all.with(key.clone()));
    let place = Place { object, index: rule.index, name: rule.name, origins, is_guarded: true };
    let mut found = std::mem::take(&mut rule.flaws);
    found.extend(rule_of(object, rule.index).into_iter().flat_map(|written| flaws(object, written, &rule.matches)));
    if let Some(message) = reported(object, &field, &found, &mut outcome.faults) {
        return broken(place, &rule.matches, section, message, &answering(settings), outcome);
    }
    if let Some((policy, why)) = &attached.closed {
        return not_enforced(place, &rule.matches, &attached, (policy, why), settings, outcome);
    }
    let missing = missing(object, &rule, above, settings, reader);
    let status = if missing.is_empty() { NO_ROUTE } else { MISSING_ROUTE };
    if let Some(first) = missing.first() {
        outcome.replaced = Some(Replaced {
            object: object.key.clone(),
            section,
            response: Some(status),
            class: first.class,
            message: first.sentence(),
            policy: None,
            lacks_backend: true,
        });
    }
    let body = match missing.is_empty() {
        true => NO_ROUTE_BODY.into(),
        false => body_for(&settings.missing_backend_body, &object.key.kind),
    };
    outcome.faults.extend(missing);
    for (entry, ranked) in rule.matches.iter().enumerate() {
        let action = Action::Respond(FixedResponse::new(status, body.clone()));
        outcome.routes.push(place.route(entry, ranked, action));
    }
    outcome
}

/// Returns the faults of references without a route.
fn missing(
    object: &Object,
    rule: &ReadRule<'_>,
    above: &[(ObjectKey, usize)],
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Vec<Fault> {
    let around = above.iter().map(|(key, _)| key).chain([&object.key]).collect();
    let outer = rule.matches.iter().map(|ranked| RequestSet::new(&ranked.matches)).collect();
    let parent = DelegatingRule { object, settings, around, depth: above.len(), outer };
    let (index, backends) = (rule.index, rule.backends);
    let mut faults = Vec::new();
    for (entry, reference) in backends.iter().enumerate().take(BACKENDS_MAX) {
        let Some(selection) = RouteSelection::of(reference, &object.key.namespace) else { continue };
        let field = format!("spec.{}.{}", ObjectSection::Rule(index), at("backendRefs", entry));
        let why = match &selection {
            RouteSelection::Named(key) => parent.refuses(key, reader),
            RouteSelection::Namespace(_) | RouteSelection::Labelled { .. } => {
                let selected = reader.selected(&selection);
                let is_empty = !selected.iter().any(|key| parent.refuses(key, reader).is_none());
                is_empty.then(|| (Class::Referential, format!("{} take none of its requests", selection.words())))
            }
        };
        if let Some((class, why)) = why {
            let message = format!("{why}: requests that no other HTTPRoute takes are answered with {MISSING_ROUTE}");
            faults.push(Fault::new(&object.key, class, field, "BackendNotFound", message));
        }
    }
    faults
}

/// A rule that delegates, with the routes that it must not delegate to.
struct DelegatingRule<'a> {
    object: &'a Object,
    settings: &'a Settings,
    around: BTreeSet<&'a ObjectKey>,
    depth: usize,
    /// The matches of the rule.
    outer: Vec<RequestSet<'a>>,
}

impl DelegatingRule<'_> {
    /// Returns why a route takes no requests of the rule.
    fn refuses(&self, key: &ObjectKey, reader: &mut Reader<'_>) -> Option<(Class, String)> {
        let name = key.namespaced_name();
        let refused = |why: &str| Some((Class::Referential, format!("HTTPRoute {name} {why}")));
        if self.around.contains(key) {
            return Some((Class::Referential, format!("HTTPRoute {name} delegates to this route, which is a cycle")));
        }
        if self.depth >= DEPTH_MAX {
            return refused(&format!("has more than {DEPTH_MAX} HTTPRoutes above it"));
        }
        let Some(child) = reader.object(key) else { return refused(reader.lacking(key)) };
        let Body::HttpRoute(route) = &child.body else { return refused("is no HTTPRoute") };
        if is_attached(&**route) {
            return refused("is attached to a Gateway itself, so that no rule can delegate to it");
        }
        if !accepts(child, &**route, &self.object.key) {
            return refused("names other HTTPRoutes in spec.parentRefs");
        }
        if let Some((_, why)) = unserved(child) {
            return refused(&format!("cannot be served: {why}"));
        }
        let regexes = regexes(self.settings);
        let mut rules = route.rules.iter().enumerate();
        let has_some = rules.any(|(index, entry)| match entry {
            RuleEntry::Decoded(rule) => http::read(index, rule, &regexes).matches.iter().any(|inner| {
                let inner = RequestSet::new(&inner.matches);
                self.outer.iter().any(|outer| inner.is_within(outer))
            }),
            RuleEntry::Broken { .. } => true,
        });
        if has_some { None } else { refused("has no match within the matches of the rule") }
    }
}
