//! Audit of routes below an earlier version of an HTTPRoute that delegates: the current rule of that HTTPRoute with these
//! requests delegates to the same route, and its protection is enforced.
//!
//! Which rule that is, is read from the matches of the current version as it would be served.

use std::collections::BTreeSet;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::http_route::HttpRule;
use holdfast_api::apis::gateway::route::RuleEntry;
use holdfast_api::object::Object;
use holdfast_envoy::model::{Match, PathMatch, Route};
use holdfast_translate::overlay::Overlay;
use holdfast_translate::route::{Rendered, RoutePlan};

use super::meeting::{is_below, may_meet};
use super::today::Today;
use super::{About, delegation, policies, security};
use crate::plan::world::World;

/// A route to which other HTTPRoutes delegate, as it would be served.
pub(super) struct ServedBelow<'a> {
    /// The current version of its object.
    pub(super) object: &'a Object,
    /// Its plan under the overlay.
    pub(super) plan: &'a RoutePlan,
    pub(super) rendered: &'a Rendered,
}

/// Returns why a route must not be served below the earlier versions of HTTPRoutes; `None` if it may.
pub(super) fn objection(
    below: &ServedBelow<'_>,
    overlay: &Overlay,
    world: &World<'_>,
    today: &Today<'_>,
) -> Option<(About, String)> {
    let of = below.rendered.delegated()?;
    let nexts = of.chain.iter().skip(1).map(|(key, _)| today.object(key).map(|object| &**object));
    let nexts = nexts.chain([Some(below.object)]);
    let mut found = of.chain.iter().zip(nexts).filter_map(|((above, rule), next)| {
        let served = overlay.objects.get(above)?;
        below.objection_to((served, *rule), next?, overlay, world, today)
    });
    found.next()
}

impl ServedBelow<'_> {
    /// Returns why this route must not be served below a rule of an earlier version. `next`: what that rule delegates to.
    fn objection_to(
        &self,
        (served, rule): (&Object, usize),
        next: &Object,
        overlay: &Overlay,
        world: &World<'_>,
        today: &Today<'_>,
    ) -> Option<(About, String)> {
        let key = &served.key;
        let current = today.object(key)?;
        let Some(plan) = today.current_plan(key, overlay) else {
            let why = format!(
                "the current HTTPRoute {} cannot be translated, so that its protection is unknown",
                key.namespaced_name()
            );
            return Some((About::Security, why));
        };
        let form = security::Form::new(current, &plan).guarded(policies::of_rules(current, today));
        let own = security::Form::new(overlay.objects.get(&self.object.key).map_or(self.object, |own| own), self.plan);
        let (Body::HttpRoute(now), Body::HttpRoute(then)) = (&current.body, &served.body) else { return None };
        let name = key.namespaced_name();
        let nothing = BTreeSet::new();
        let policies = self.rendered.delegated().map_or(&nothing, |of| &of.policies.0);
        for index in
            responsible(&now.rules, then.rules.get(rule).map(|entry| (entry.name(), rule)), &plan, &self.rendered.route)
        {
            let lost = security::lacking_of_rule((&form, index), &own, &self.rendered.route, policies, world.settings);
            if let Some(lost) = lost {
                let why = format!("it lacks {lost}, which rule {index} of the current HTTPRoute {name} requires");
                return Some((About::Security, why));
            }
            let entry = now.rules.get(index)?;
            if delegation::delegates(entry) && !delegation::may_select(entry, key, next) {
                let why =
                    format!("rule {index} of the current HTTPRoute {name} delegates its requests to other routes");
                return Some((About::Reach, why));
            }
        }
        None
    }
}

/// Returns the current rules that have requests of a route below an earlier rule: those with a match before one that has
/// all of them, and the current form of the earlier rule if its matches are unknown. `earlier`: the name and the index of
/// the earlier rule.
fn responsible(
    now: &[RuleEntry<HttpRule>],
    earlier: Option<(Option<&str>, usize)>,
    plan: &RoutePlan,
    route: &Route,
) -> BTreeSet<usize> {
    let mut routes: Vec<&Route> = plan.routes.iter().map(|rendered| &rendered.route).collect();
    routes.sort_by(|one, other| one.precedence.cmp(&other.precedence));
    let mut found = BTreeSet::new();
    for other in &routes {
        if may_meet(&other.matches, &route.matches) {
            found.insert(other.precedence.rule);
            if covers(&other.matches, &route.matches) {
                break;
            }
        }
    }
    let is_form_of = |(index, entry): &(usize, &RuleEntry<HttpRule>)| {
        earlier.is_some_and(|(name, rule)| entry.name() == name && (name.is_some() || *index == rule))
    };
    let is_unknown =
        |index: usize| !routes.iter().any(|other| other.precedence.rule == index && !other.precedence.narrowed);
    let form = now.iter().enumerate().find(is_form_of).map(|(index, _)| index);
    found.extend(form.filter(|index| is_unknown(*index)));
    found
}

/// Checks whether a match has all requests of another one.
fn covers(outer: &Match, inner: &Match) -> bool {
    let has_path = match &outer.path {
        PathMatch::Prefix(prefix) => is_below(&inner.path, prefix),
        path => *path == inner.path,
    };
    has_path
        && outer.method.as_ref().is_none_or(|method| inner.method.as_ref() == Some(method))
        && outer.headers.iter().all(|one| inner.headers.contains(one))
        && outer.query.iter().all(|one| inner.query.contains(one))
}
