//! Route objects: claims after the resolution of conflicts, and translated and encoded rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::references::BackendRef;
use holdfast_api::apis::gateway::route::{RouteRule, RuleEntry};
use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::Object;
use holdfast_api::section::ObjectSection;
use holdfast_api::settings::Settings;
use holdfast_api::status::Condition;
use holdfast_check::re2::Regexes;
use holdfast_envoy::encode;
use holdfast_envoy::model::Route;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_graph::ObjectKey;

use super::rule::{self, Outcome, ReadRule};
use super::{claims, default_gateways, delegation};
use super::{grpc, http, rivals, stream, today};
use crate::annotations;
use crate::httpproxy::neighbours;
use crate::incremental::guard;
use crate::narrowing::{self, Ranked};
use crate::outcome::claims::{Attachment, Claims, Parent};
use crate::outcome::delegation::{self as delegations, Delegated};
use crate::outcome::route::{Rendered, Replaced, RoutePlan};
use crate::overlay::{ClosedSections, Closing, Manner};
use crate::reader::Reader;
use crate::{policy, precedence};

/// The reasons of reports about delegation that concern no reference of the route alone.
const OF_DELEGATIONS: [&str; 4] =
    [delegations::REFUSED, delegations::CYCLE, delegations::TOO_DEEP, delegations::TOO_MANY];

/// Translates a route object; `None` where it is deleted. Units in `closed` are not served as written.
pub(crate) fn plan(
    key: &ObjectKey,
    claims: &Claims,
    closed: &ClosedSections,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Option<RoutePlan> {
    let object = reader.object(key)?;
    if claims.anothers {
        return Some(RoutePlan::default());
    }
    if let Body::StreamRoute(route) = &object.body {
        return Some(finished(stream::plan(object, route, claims, closed, settings, reader)));
    }
    let mut plan = RoutePlan { faults: claims.faults.clone(), ..RoutePlan::default() };
    plan.faults.extend(annotations::of_gateway_api(object));
    let hostnames = claims::written(object).map(|(_, hostnames)| hostnames).unwrap_or_default();
    for parent in &claims.parents {
        let parent = contested(object, parent, hostnames, settings, reader, &mut plan.faults);
        plan.parents.push(parent);
    }
    plan.wholly_invalid = match claims.delegations.is_empty() {
        true => attached(object, closed, settings, reader, &mut plan),
        false => delegation::plan(object, claims, closed, settings, reader, &mut plan),
    };
    Some(finished(plan))
}

/// Adds the routes of an object that is attached to Gateways to its plan. Returns whether all its rules are broken.
fn attached(
    object: &Object,
    closed: &ClosedSections,
    settings: &Settings,
    reader: &mut Reader<'_>,
    plan: &mut RoutePlan,
) -> bool {
    let mut outcomes = outcomes(object, closed, &[], settings, reader);
    if let Some(desired) = reader.replaced(&object.key) {
        today::give_way(&mut outcomes, desired, settings);
    }
    let count = outcomes.len();
    for (index, mut outcome) in outcomes.into_iter().enumerate() {
        let mut bare = std::mem::take(&mut outcome.bare).into_iter();
        let routes = std::mem::take(&mut outcome.routes).into_iter().map(|route| (route, bare.next(), None));
        let routes = routes.collect();
        add(plan, index, outcome, routes);
    }
    let invalid = plan.replaced.iter().filter(|replaced| replaced.class == Class::Invalid).count();
    count > 0 && invalid == count
}

/// A route, the same route without policy settings, and what it has from routes that delegate to it.
pub(super) type TranslatedRoute = (Route, Option<Route>, Option<Arc<Delegated>>);

/// Adds the outcome of a rule to a plan, with these routes of it.
pub(super) fn add(plan: &mut RoutePlan, index: usize, mut outcome: Outcome, routes: Vec<TranslatedRoute>) {
    let policy_settings = Arc::new(std::mem::take(&mut outcome.policy_settings));
    plan.routes.extend(routes.into_iter().map(|(route, bare, delegated)| {
        let rendered = match bare {
            Some(bare) => {
                let bare = Arc::new(Route { name: route.name.clone(), ..bare });
                Rendered::with_policies(route, bare, policy_settings.clone())
            }
            None => Rendered::new(route),
        };
        Arc::new(match delegated {
            Some(delegated) => rendered.below(delegated),
            None => rendered,
        })
    }));
    plan.backends.extend(outcome.backends);
    // A rule below several others yields the same faults several times.
    let new = outcome.faults.into_iter().filter(|fault| !plan.faults.contains(fault)).collect::<Vec<_>>();
    plan.faults.extend(new);
    plan.replaced.extend(outcome.replaced.filter(|replaced| !plan.replaced.contains(replaced)));
    plan.policies.extend(outcome.policies.iter().cloned());
    if let Some(origins) = outcome.of_policies {
        let (keys, known) = plan.merged.entry(ObjectSection::Rule(index).to_string().into()).or_default();
        keys.extend(outcome.policies);
        for (field, origin) in origins {
            let known = known.entry(field).or_default();
            known.extend(origin.into_iter().filter(|key| !known.contains(key)).collect::<Vec<_>>());
        }
    }
}

/// Returns a parent after the resolution of conflicts about hosts.
pub(super) fn contested(
    object: &Object,
    parent: &Parent,
    hostnames: &[Arc<str>],
    settings: &Settings,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) -> Parent {
    let parent = against_rivals(object, parent, reader, faults);
    neighbours::give_way(&object.key, hostnames, parent, settings.proxies.gateway.as_ref(), reader, faults)
}

/// Adds the places and the conditions of a route to its plan.
fn finished(mut plan: RoutePlan) -> RoutePlan {
    default_gateways::settle(&mut plan);
    let attachments = plan.parents.iter().flat_map(|parent| &parent.attachments);
    plan.places = attachments.flat_map(places).collect();
    let attachments = plan.parents.iter().flat_map(|parent| &parent.attachments);
    plan.lent = attachments.flat_map(|at| places(at).filter(|(_, _, host)| at.lent.contains(host))).collect();
    plan.conditions = conditions(&plan, |_| true);
    if plan.wholly_invalid {
        for parent in plan.parents.iter_mut().filter(|parent| parent.accepted.status == "True") {
            let message = plan.replaced.iter().map(|replaced| &*replaced.message).collect::<Vec<_>>().join("; ");
            parent.accepted = Condition::new("Accepted", false, "UnsupportedValue", message);
        }
    }
    plan
}

/// Returns the plan of a route after failed translation: a direct response answers its hosts after all other routes, so
/// that no broader host gets their requests.
pub(crate) fn failed(object: &Object, claims: &Claims, settings: &Settings) -> RoutePlan {
    let fault = guard::fault(&object.key);
    let closing = Closing { how: Manner::AsWritten, message: fault.message.as_str().into() };
    let outcome = rule::closed(object, &rule::nothing_known(0, None), &closing, true, settings);
    let mut plan = RoutePlan { faults: claims.faults.clone(), parents: claims.parents.clone(), ..RoutePlan::default() };
    match &object.body {
        Body::StreamRoute(_) => plan.stream = Some(Arc::new(stream::closed(object))),
        _ => plan.routes = outcome.routes.into_iter().map(|route| Arc::new(Rendered::new(route))).collect(),
    }
    plan.replaced = outcome.replaced.into_iter().collect();
    plan.faults.push(fault);
    plan.faults.dedup();
    let attachments = plan.parents.iter().flat_map(|parent| &parent.attachments);
    plan.places = attachments.flat_map(places).collect();
    plan.wholly_invalid = true;
    plan.conditions = conditions(&plan, |_| true);
    plan
}

pub(super) fn places(attachment: &Attachment) -> impl Iterator<Item = (ObjectKey, TableName, Host)> {
    let gateway = &attachment.listener.gateway;
    attachment.owned.iter().map(move |host| (gateway.clone(), attachment.table.clone(), host.clone()))
}

/// Returns the outcome of each rule, below the rules of other routes that delegate to it.
pub(super) fn outcomes(
    object: &Object,
    closed: &ClosedSections,
    above: &[(ObjectKey, usize)],
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Vec<Outcome> {
    let mut attached = policy::route::attached(object, reader);
    delegation::inherit(&mut attached, above, reader);
    let unreadable = |index: usize, name: Option<&Arc<str>>, matches: Vec<Ranked>, why: &str, guards: Option<bool>| {
        let name = name.map(|name| &**name);
        // A rule that may be guarded is answered even where broken rules are left out.
        let is_guarded = guards.unwrap_or(true) || attached.reach(name);
        match closing(closed, index) {
            // Envoy refused even the direct response that replaces the rule.
            Some(closing) => rule::closed(object, &rule::nothing_known(index, name), closing, true, settings),
            None => rule::unreadable(object, index, name, &matches, why.to_owned(), (is_guarded, settings)),
        }
    };
    let regexes = Regexes::of_object(narrowing::limits(settings));
    let mut decoded = |index: usize, rule: ReadRule<'_>| match closing(closed, index) {
        Some(closing) => rule::closed(object, &rule, closing, attached.reach(rule.name), settings),
        None if delegation::delegates(object, rule.backends) => {
            delegation::translate(object, rule, (&attached, above), settings, reader)
        }
        None => rule::translate(object, rule, &attached, settings, reader),
    };
    match &object.body {
        Body::HttpRoute(route) => enumerate(&route.rules, |index, entry| match entry {
            RuleEntry::Decoded(rule) => decoded(index, http::read(index, rule, &regexes)),
            RuleEntry::Broken { name, matches, why, guards, .. } => {
                let guards = guards.as_deref().map(has_filters);
                unreadable(index, name.as_ref(), http::salvage(matches, &regexes), why, guards)
            }
        }),
        Body::GrpcRoute(route) => enumerate(&route.rules, |index, entry| match entry {
            RuleEntry::Decoded(rule) => decoded(index, grpc::read(index, rule, &regexes)),
            RuleEntry::Broken { name, matches, why, guards, .. } => {
                let guards = guards.as_deref().map(has_filters);
                unreadable(index, name.as_ref(), grpc::salvage(matches, &regexes), why, guards)
            }
        }),
        _ => Vec::new(),
    }
}

/// Returns whether a rule or one of its backends has filters.
fn has_filters(rule: &impl RouteRule) -> bool {
    let is_filtered = |backend: &BackendRef| backend.filters.as_ref().is_some_and(|filters| !filters.is_empty());
    !rule.filters().is_empty() || rule.backends().iter().any(is_filtered)
}

fn closing(closed: &ClosedSections, index: usize) -> Option<&Closing> {
    if closed.is_empty() { None } else { closed.get(ObjectSection::Rule(index).to_string().as_str()) }
}

fn enumerate<R>(rules: &[RuleEntry<R>], mut each: impl FnMut(usize, &RuleEntry<R>) -> Outcome) -> Vec<Outcome> {
    // Two rules with the same name would give two routes with the same name.
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    rules
        .iter()
        .enumerate()
        .map(|(index, entry)| {
            let mut outcome = each(index, entry);
            for (entry, route) in outcome.routes.iter_mut().enumerate() {
                let times = names.entry(route.name.to_string()).and_modify(|times| *times += 1).or_insert(0);
                if *times > 0 {
                    route.name = encode::names::repeated_route(&route.name, index, entry).into();
                }
            }
            outcome
        })
        .collect()
}

/// Removes hosts that a route of the other kind has.
fn against_rivals(object: &Object, parent: &Parent, reader: &mut Reader<'_>, faults: &mut Vec<Fault>) -> Parent {
    let mut parent = parent.clone();
    let other = rivals::other_kind(&object.key.kind);
    let mut lost = None;
    give_way(&object.key, &mut parent, other, reader);
    let age = object.age();
    parent.attachments.retain(|attachment| {
        let older = rivals::winner(&object.key.kind, (&age, &attachment.hosts), &attachment.listener, reader);
        if let Some(winner) = older {
            lost = Some(format!("the older {other} {} has the same hosts at this listener", winner.namespaced_name()));
        }
        older.is_none()
    });
    if let Some(message) = lost {
        let field = parent.field();
        faults.push(Fault::new(&object.key, Class::Conflict, field, "HostnameConflict", &message));
        if parent.attachments.is_empty() {
            parent.accepted = Condition::new("Accepted", false, "HostnameConflict", message);
        }
    }
    parent
}

/// Removes hosts that only an earlier version claims, if a route of the other kind claims them today, or another route
/// claims a wildcard that covers them.
fn give_way(key: &ObjectKey, parent: &mut Parent, other: &str, reader: &mut Reader<'_>) {
    for attachment in parent.attachments.iter_mut().filter(|attachment| !attachment.lent.is_empty()) {
        let rivals: Vec<_> = reader.rivals(&attachment.listener, other).map(|(_, rival)| rival).collect();
        let alike = reader.rivals(&attachment.listener, &key.kind).filter(|(rival, _)| *rival != key);
        // Routes with equal hosts are ranked; a wildcard would be hidden by a host that no route claims today. Routes
        // without hostnames claim the remaining hosts.
        let named = alike.flat_map(|(_, rival)| &rival.hosts).filter(|host| **host != Host::any());
        let wildcards: Vec<&Host> = named.collect();
        let is_lost = |lent: &&Host| {
            rivals.iter().flat_map(|rival| &rival.hosts).any(|host| lent.intersection(host).is_some())
                || wildcards.iter().any(|host| host != lent && host.covers(lent))
        };
        let lost: Vec<Host> = attachment.lent.iter().filter(is_lost).cloned().collect();
        for hosts in [&mut attachment.hosts, &mut attachment.owned, &mut attachment.lent] {
            hosts.retain(|host| !lost.contains(host));
        }
    }
    parent.attachments.retain(|attachment| !attachment.hosts.is_empty());
}

/// Returns the conditions of a route at a parent: below an HTTPRoute, only the replacements that are served there count.
pub fn conditions_at(plan: &RoutePlan, parent: &Parent) -> Vec<Condition> {
    match plan.replaced.iter().all(|replaced| plan.is_replaced_at(replaced, parent)) {
        true => plan.conditions.clone(),
        false => conditions(plan, |replaced| plan.is_replaced_at(replaced, parent)),
    }
}

/// Returns the conditions with these replacements.
fn conditions(plan: &RoutePlan, is_here: impl Fn(&Replaced) -> bool) -> Vec<Condition> {
    let mut conditions = Vec::new();
    let unresolved: Vec<&Fault> = plan
        .faults
        .iter()
        .filter(|fault| fault.class == Class::Referential && fault.field.starts_with("spec.rules"))
        // References of policies are reported on the policies.
        .filter(|fault| fault.reason != precedence::NOT_ENFORCED)
        .collect();
    // Routes that a rule selects and that cannot be below it are no errors of the rule, and are in no other condition.
    let refused = plan.faults.iter().filter(|fault| OF_DELEGATIONS.contains(&fault.reason)).map(Fault::sentence);
    conditions.push(match unresolved.first() {
        None => {
            let all = std::iter::once("every reference was resolved".to_owned()).chain(refused);
            Condition::new("ResolvedRefs", true, "ResolvedRefs", all.collect::<Vec<_>>().join("; "))
        }
        Some(first) => {
            let all = unresolved.iter().map(|fault| fault.sentence()).chain(refused);
            Condition::new("ResolvedRefs", false, first.reason, all.collect::<Vec<_>>().join("; "))
        }
    });
    let broken = || {
        let is_reported =
            |replaced: &&Replaced| is_here(replaced) && (replaced.class == Class::Invalid || replaced.policy.is_some());
        plan.replaced.iter().filter(is_reported)
    };
    let describe = |replaced: &Replaced| format!("({}): {}", replaced.section, replaced.message);
    if broken().next().is_some() {
        let reasons = broken().map(describe).collect::<Vec<_>>().join("; ");
        let is_broken = |section: &str| broken().any(|replaced| replaced.section == section);
        let goes_on = plan.routes.iter().any(|route| !is_broken(&route.node().section))
            || plan.replaced.iter().any(|replaced| !is_broken(&replaced.section));
        // A route without any remaining rule is not partially invalid.
        if !plan.wholly_invalid && goes_on {
            // The specification requires this beginning of the message.
            let message = format!("Dropped Rule {reasons}");
            conditions.push(Condition::new("PartiallyInvalid", true, "UnsupportedValue", message));
        }
        let (reason, message) = match (&plan.stream, broken().find_map(|replaced| replaced.response)) {
            (Some(route), _) => ("Replaced", format!("{} {reasons}", stream::lost(&route.node.key))),
            (None, Some(status)) => ("Replaced", format!("requests are answered with status {status} {reasons}")),
            (None, None) => ("Excluded", format!("these rules are left out: {reasons}")),
        };
        conditions.push(Condition::new(holdfast_api::status::FALLBACK_CONDITION, true, reason, message));
    }
    conditions
}
