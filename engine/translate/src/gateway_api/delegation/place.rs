//! A route below the rules that delegate to it: its places, its parents, and which of its matches are served where.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::object::Object;
use holdfast_api::section::ObjectSection;
use holdfast_api::settings::Settings;
use holdfast_api::status::Condition;
use holdfast_envoy::encode::names;
use holdfast_envoy::model::containment::RequestSet;
use holdfast_graph::ObjectKey;

use super::super::route::{contested, outcomes, places};
use super::super::rule::Outcome;
use super::super::{claims, today};
use super::given::{GivenRequests, PreparedMatches};
use super::reference_to;
use crate::outcome::claims::{Claims, Parent, ParentOrigin};
use crate::outcome::delegation::{Delegated, RouteDelegation};
use crate::outcome::gateway::GatewayPlan;
use crate::outcome::route::{Places, RoutePlan};
use crate::overlay::ClosedSections;
use crate::reader::Reader;

/// The parents of a route: the delegating HTTPRoute at one Gateway.
type ParentsBelow = BTreeMap<(ObjectKey, ObjectKey), Parent>;

/// Adds the routes of an object to its plan, below each rule that delegates to it. Returns whether all its rules are
/// broken wherever they are served.
pub(in super::super) fn plan(
    object: &Object,
    claims: &Claims,
    closed: &ClosedSections,
    settings: &Settings,
    reader: &mut Reader<'_>,
    plan: &mut RoutePlan,
) -> bool {
    let mut below = RoutesBelow { refused: plan.parents.len(), ..RoutesBelow::default() };
    let mut count = 0;
    let is_any_served = claims.delegations.iter().any(|delegation| !delegation.is_empty);
    let prepared = PreparedMatches::of(&claims.delegations);
    for delegation in &claims.delegations {
        let Some(given) = prepared.given(delegation) else { continue };
        let parents = parents_of(delegation, settings, reader);
        let here: Places = parents.iter().flat_map(|parent| &parent.attachments).flat_map(places).collect();
        below.attach(object, delegation, parents);
        // Policies above that apply to none of its requests are no dependencies of the route. Its own faults are reported
        // in any case.
        if is_any_served && delegation.is_empty {
            continue;
        }
        let mut outcomes = outcomes(object, closed, &delegation.chain, settings, reader);
        if let Some(desired) = reader.replaced(&object.key) {
            today::give_way(&mut outcomes, desired, settings);
        }
        count = outcomes.len();
        for (index, outcome) in outcomes.into_iter().enumerate() {
            below.serve((delegation, &given), &here, (index, outcome), plan);
        }
    }
    below.is_any_given = is_any_served;
    plan.whole_below = below.whole_below();
    let is_broken = count > 0 && (0..count).all(|index| below.invalid.contains(&index)) && !below.is_any_served;
    below.finish(object, plan, reader);
    is_broken
}

/// Returns the attachments of the route at the top, after the resolution of its conflicts.
fn parents_of(delegation: &RouteDelegation, settings: &Settings, reader: &mut Reader<'_>) -> Vec<Parent> {
    let Some(top) = delegation.chain.first().and_then(|(key, _)| reader.object(key)) else { return Vec::new() };
    let hostnames = claims::written(top).map(|(_, hostnames)| hostnames).unwrap_or_default();
    // These conflicts are reported at the route at the top.
    let mut faults = Vec::new();
    let contest = |parent: &Parent| contested(top, parent, hostnames, settings, reader, &mut faults);
    delegation.parents.iter().map(contest).collect()
}

/// Returns whether a route attaches to listeners of a parent, and none of them has a place for routes.
fn is_without_place(parent: &Parent, reader: &mut Reader<'_>) -> bool {
    let Some(plan) = reader.outcome::<GatewayPlan>(&parent.gateway) else { return false };
    let mut named = parent.attachments.iter().map(|attachment| &attachment.listener.name);
    !parent.attachments.is_empty()
        && named.all(|name| plan.listeners.iter().any(|listener| listener.name == *name && !listener.has_place()))
}

#[derive(Default)]
struct RoutesBelow {
    /// The places of each match: index of the rule and of the match.
    taken: BTreeMap<((usize, usize), usize), Places>,
    /// The matches that get no requests of any delegating match.
    outside: BTreeSet<(usize, usize)>,
    /// The rules that are served as written somewhere, by Gateway.
    whole: BTreeMap<ObjectKey, BTreeSet<usize>>,
    /// The rules that are replaced somewhere, by Gateway.
    replaced: BTreeMap<ObjectKey, BTreeSet<usize>>,
    /// The rules that are broken somewhere.
    invalid: BTreeSet<usize>,
    /// Whether a rule is served somewhere that is not broken there.
    is_any_served: bool,
    /// Whether a rule above gives requests to a match of the route.
    is_any_given: bool,
    /// The number of parents that do not serve the route.
    refused: usize,
    parents: ParentsBelow,
    /// The HTTPRoutes above with a match that gives requests to a match of the route.
    giving: BTreeSet<ObjectKey>,
}

impl RoutesBelow {
    /// Adds the parents of the route in its status.
    fn attach(&mut self, object: &Object, delegation: &RouteDelegation, parents: Vec<Parent>) {
        let Some((above, _)) = delegation.chain.last() else { return };
        let (reference, index) = reference_to(object, above);
        let written = claims::written(object).map(|(parents, _)| parents).unwrap_or_default();
        let index = index.unwrap_or(written.len() + self.refused + self.parents.len());
        let origin = ParentOrigin::ParentRef(index);
        if !delegation.is_empty {
            self.giving.insert(above.clone());
        }
        for parent in parents {
            let at = (above.clone(), parent.gateway.clone());
            let known = self.parents.entry(at).or_insert_with(|| Parent {
                reference: reference.clone(),
                origin,
                attachments: Vec::new(),
                set: None,
                ..parent.clone()
            });
            for attachment in parent.attachments {
                if !known.attachments.contains(&attachment) {
                    known.attachments.push(attachment);
                }
            }
        }
    }

    /// Adds the routes of a rule that are within a delegating match, at the places where no more specific match has them.
    fn serve(
        &mut self,
        (delegation, given): (&RouteDelegation, &GivenRequests<'_>),
        here: &Places,
        (index, mut outcome): (usize, Outcome),
        plan: &mut RoutePlan,
    ) {
        let (routes, bare) = (std::mem::take(&mut outcome.routes), std::mem::take(&mut outcome.bare));
        let (mut bare, has_routes) = (bare.into_iter(), !routes.is_empty());
        let policies = (outcome.policies.clone(), outcome.of_policies.clone().unwrap_or_default());
        let mut served = Vec::new();
        for mut route in routes {
            let mut bare = bare.next();
            let entry = (index, route.precedence.entry);
            if !given.contain(&RequestSet::new(&route.matches)) {
                // A match that cannot be read is reported as such.
                if !self.taken.contains_key(&(entry, route.precedence.share)) && !route.precedence.narrowed {
                    self.outside.insert(entry);
                }
                continue;
            }
            self.outside.remove(&entry);
            let taken = self.taken.entry((entry, route.precedence.share)).or_default();
            let places: Places = here.difference(taken).cloned().collect();
            taken.extend(places.iter().cloned());
            if let Some((above, rule)) = delegation.chain.last() {
                route.name = names::delegated_route(&route.name, above, *rule).into();
            }
            for form in [Some(&mut route), bare.as_mut()].into_iter().flatten() {
                form.precedence = form.precedence.clone().below(&delegation.precedence);
            }
            let delegated = Delegated { chain: delegation.chain.clone(), places, policies: policies.clone() };
            if !delegated.places.is_empty() {
                served.push((route, bare, Some(Arc::new(delegated))));
            }
        }
        // A rule without routes is left out at all places.
        let all = if has_routes { Places::default() } else { here.clone() };
        if let Some(replaced) = outcome.replaced.as_ref().filter(|_| !has_routes || !served.is_empty()) {
            plan.replaced_below.entry(replaced.clone()).or_default().insert(delegation.chain.clone());
        }
        let own = served.iter().filter_map(|(_, _, delegated)| delegated.as_ref());
        let gateways = own.flat_map(|of| &of.places).chain(&all).map(|(gateway, _, _)| gateway.clone()).collect();
        self.note((index, &outcome), !served.is_empty(), gateways);
        super::super::route::add(plan, index, outcome, served);
    }

    /// Notes how a rule is served below one delegating match, at these Gateways.
    fn note(&mut self, (index, outcome): (usize, &Outcome), is_served: bool, gateways: BTreeSet<ObjectKey>) {
        let class = outcome.replaced.as_ref().map(|replaced| replaced.class);
        let rules = match class {
            Some(_) => Some(&mut self.replaced),
            None => is_served.then_some(&mut self.whole),
        };
        if let Some(rules) = rules {
            for gateway in gateways {
                rules.entry(gateway).or_default().insert(index);
            }
        }
        match class {
            Some(Class::Invalid) => drop(self.invalid.insert(index)),
            _ => self.is_any_served |= is_served,
        }
    }

    /// Returns the Gateways at which each served rule is served as written somewhere.
    fn whole_below(&self) -> BTreeSet<ObjectKey> {
        let is_whole = |(gateway, whole): &(&ObjectKey, &BTreeSet<usize>)| {
            self.replaced.get(*gateway).is_none_or(|replaced| replaced.is_subset(whole))
        };
        self.whole.iter().filter(is_whole).map(|(gateway, _)| gateway.clone()).collect()
    }

    fn finish(self, object: &Object, plan: &mut RoutePlan, reader: &mut Reader<'_>) {
        for (rule, entry) in self.outside {
            let field = format!("spec.{}.{}", ObjectSection::Rule(rule), at("matches", entry));
            let message = "no rule that delegates to the route has these requests, so that the match is not served: \
                           it must be within the path, headers and query parameters of such a rule, and not within \
                           those of a more specific rule beside it";
            plan.faults.push(Fault::new(&object.key, Class::Ignored, field, "OutsideOfParent", message));
        }
        let served: BTreeSet<(&ObjectKey, &ObjectKey)> = plan
            .routes
            .iter()
            .filter_map(|rendered| rendered.delegated())
            .filter_map(|of| Some((of, of.chain.last()?)))
            .flat_map(|(of, (above, _))| of.places.iter().map(move |(gateway, _, _)| (above, gateway)))
            .collect();
        let written = claims::written(object).map(|(parents, _)| parents).unwrap_or_default();
        for ((above, gateway), mut parent) in self.parents {
            let is_idle = !served.contains(&(&above, &gateway)) && parent.accepted.status == "True";
            if is_idle && self.giving.contains(&above) && is_without_place(&parent, reader) {
                let gateway_plan = reader.outcome::<GatewayPlan>(&gateway);
                let conflict = gateway_plan.and_then(|of| claims::conflicted(&object.key, of, &parent));
                plan.faults.extend(conflict);
            } else if is_idle {
                let message = format!(
                    "no match of the route is within a rule of HTTPRoute {} that delegates to it, or other rules that \
                     delegate to it are more specific: the route is not served below it; write its matches within the \
                     path, headers and query parameters of that rule",
                    above.namespaced_name()
                );
                // A rule can select routes that are meant for others: only a route that names its parent misses it, and
                // one that has no other.
                let is_named = written.contains(&parent.reference);
                if self.is_any_given && !is_named {
                    continue;
                }
                if is_named {
                    let field = parent.field();
                    plan.faults.push(Fault::new(&object.key, Class::Referential, field, "NoMatchingParent", &message));
                }
                parent.accepted = Condition::new("Accepted", false, "NoMatchingParent", message);
                parent.attachments.clear();
            }
            plan.parents.push(parent);
        }
    }
}
