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
use super::{DEPTH_MAX, EXAMINED_MAX, REFUSED_MAX, accepts, flaws, is_attached, priority, regexes, rule_of, unserved};
use crate::outcome::delegation::{REFUSED, RouteSelection, selections};
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
    let mut message = reported(object, &field, &found, &mut outcome.faults);
    if let Err(fault) = priority(object) {
        // Each rule yields the same fault, which the plan has once.
        message.get_or_insert_with(|| fault.sentence());
        outcome.faults.push(*fault);
    }
    if let Some(message) = message {
        return broken(place, &rule.matches, section, message, &answering(settings), outcome);
    }
    if let Some((policy, why)) = &attached.closed {
        return not_enforced(place, &rule.matches, &attached, (policy, why), settings, outcome);
    }
    let ReportedReferences { missing, refused } = references(object, &rule, above, settings, reader);
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
    outcome.faults.extend(
        refused
            .into_iter()
            .map(|(field, refusal)| Fault::new(&object.key, Class::Ignored, field, REFUSED, refusal.sentence(status))),
    );
    for (entry, ranked) in rule.matches.iter().enumerate() {
        let action = Action::Respond(FixedResponse::new(status, body.clone()));
        outcome.routes.push(place.route(entry, ranked, action));
    }
    outcome
}

/// What is reported about the references of a rule.
#[derive(Default)]
struct ReportedReferences {
    /// The faults of references without a route.
    missing: Vec<Fault>,
    /// The routes that references select by their label, and that cannot be below the rule; by the field.
    refused: Vec<(String, RefusedRoute)>,
}

/// Examines the references of a rule.
fn references(
    object: &Object,
    rule: &ReadRule<'_>,
    above: &[(ObjectKey, usize)],
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> ReportedReferences {
    let around = above.iter().map(|(key, _)| key).chain([&object.key]).collect();
    let outer = rule.matches.iter().map(|ranked| RequestSet::new(&ranked.matches)).collect();
    let parent = DelegatingRule { object, settings, around, depth: above.len(), outer };
    let (index, backends) = (rule.index, rule.backends);
    let mut all = ReportedReferences::default();
    for (entry, reference) in backends.iter().enumerate().take(BACKENDS_MAX) {
        let Some(selection) = RouteSelection::of(reference, &object.key.namespace) else { continue };
        let field = format!("spec.{}.{}", ObjectSection::Rule(index), at("backendRefs", entry));
        let refusal = match &selection {
            RouteSelection::Named(key) => parent.refuses(key, reader),
            RouteSelection::Namespace(_) => {
                let selected = reader.selected(&selection);
                let is_empty = !selected.iter().any(|key| parent.refuses(key, reader).is_none());
                is_empty.then(|| RefusedRoute::new(format!("{} take none of its requests", selection.words()), ""))
            }
            RouteSelection::Labelled { .. } => {
                let (refusal, refused) = parent.labelled(&selection, reader);
                all.refused.extend(refused.into_iter().map(|refusal| (field.clone(), refusal)));
                refusal
            }
        };
        if let Some(refusal) = refusal {
            let message = refusal.sentence(MISSING_ROUTE);
            all.missing.push(Fault::new(&object.key, Class::Referential, field, "BackendNotFound", message));
        }
    }
    all
}

/// Why a route takes no requests of a rule.
struct RefusedRoute {
    why: String,
    /// What to edit; empty if it depends on what is meant.
    remedy: &'static str,
    /// Whether the route has no match within the rule, so that it may be meant for another rule.
    is_outside: bool,
}

impl RefusedRoute {
    fn new(why: String, remedy: &'static str) -> Self {
        Self { why, remedy, is_outside: false }
    }

    fn sentence(&self, status: u16) -> String {
        let Self { why, remedy, .. } = self;
        let next = if remedy.is_empty() { String::new() } else { format!("; {remedy}") };
        format!("{why}: requests that no other HTTPRoute takes are answered with {status}{next}")
    }
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
    /// Returns why no route with a label takes requests of the rule, and the routes with the label that cannot.
    fn labelled(
        &self,
        selection: &RouteSelection,
        reader: &mut Reader<'_>,
    ) -> (Option<RefusedRoute>, Vec<RefusedRoute>) {
        let selected = reader.selected(selection);
        let (mut refused, mut more, mut is_empty) = (Vec::new(), 0_usize, true);
        for (position, key) in selected.iter().enumerate() {
            if position >= EXAMINED_MAX && !is_empty {
                break;
            }
            match self.refuses(key, reader) {
                None => is_empty = false,
                Some(refusal) if refusal.is_outside && self.is_selected_elsewhere(key, reader) => {}
                Some(_) if refused.len() >= REFUSED_MAX => more += 1,
                Some(refusal) => refused.push(refusal),
            }
        }
        if more > 0 {
            let why = format!("{more} more of the {} cannot be below the rule", selection.words());
            refused.push(RefusedRoute::new(why, "holdfast check lists the reasons at each of them"));
        }
        let empty = is_empty.then(|| RefusedRoute::new(format!("{} take none of its requests", selection.words()), ""));
        (empty, refused)
    }

    /// Returns whether another rule selects a route as well.
    fn is_selected_elsewhere(&self, key: &ObjectKey, reader: &mut Reader<'_>) -> bool {
        let Some(child) = reader.object(key) else { return false };
        if reader.delegating(child).iter().any(|above| *above != self.object.key) {
            return true;
        }
        let Body::HttpRoute(route) = &self.object.body else { return false };
        let containing = RouteSelection::containing(&child.key, &child.metadata.labels);
        selections(route, &self.object.key.namespace).filter(|selection| containing.contains(selection)).count() > 1
    }

    /// Returns why a route takes no requests of the rule.
    fn refuses(&self, key: &ObjectKey, reader: &mut Reader<'_>) -> Option<RefusedRoute> {
        let name = key.namespaced_name();
        let refused = |why: &str, remedy| Some(RefusedRoute::new(format!("HTTPRoute {name} {why}"), remedy));
        if self.around.contains(key) {
            return refused("delegates to this route, which is a cycle", "remove one of the references");
        }
        if self.depth >= DEPTH_MAX {
            return refused(
                &format!("has more than {DEPTH_MAX} HTTPRoutes above it"),
                "delegate to it from one further up",
            );
        }
        let Some(child) = reader.object(key) else { return refused(reader.lacking(key), "") };
        let Body::HttpRoute(route) = &child.body else { return refused("is no HTTPRoute", "") };
        if is_attached(&**route) {
            return refused(
                "is attached to a Gateway itself, so that no rule can delegate to it",
                "remove the Gateways and ListenerSets from its parentRefs, or do not select it",
            );
        }
        if !accepts(child, &**route, &self.object.key) {
            return refused(
                "names other HTTPRoutes in spec.parentRefs",
                "add this HTTPRoute to its parentRefs, or do not select it",
            );
        }
        if let Some((field, why)) = unserved(child) {
            return refused(&format!("cannot be served because of its {field}: {why}"), "");
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
        let remedy = "write its spec.rules[].matches within the path, headers and query parameters of the rule";
        let outside = refused("has no match within the matches of the rule", remedy).filter(|_| !has_some);
        outside.map(|refusal| RefusedRoute { is_outside: true, ..refusal })
    }
}
