//! Delegation between HTTPRoutes, with the semantics of kgateway: a rule of one HTTPRoute gives its requests to the rules
//! of others, which are served at the hosts of the first.
//!
//! The unit of translation, of fallback and of status is the route that is delegated to: it reads the routes above it
//! as other routes read their Gateway. So a broken route costs its siblings and the route above nothing.
//!
//! `children.rs` finds the rules that delegate to a route, `given.rs` compares their requests with its matches, `place.rs`
//! serves it below them, and `rule.rs` answers the requests that no route takes. Nothing here gives a route requests that the rule above does not have: the routes below
//! a match are served at the place of that match, so that what comes before it keeps its requests, with its policies.
//!
//! <https://kgateway.dev/docs/envoy/main/traffic-management/route-delegation/>

mod children;
mod given;
mod place;
mod rule;

use std::collections::BTreeSet;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::http_route::HttpRule;
use holdfast_api::apis::gateway::references::{BackendRef, ParentRef};
use holdfast_api::apis::gateway::route::{PARENTS_MAX, RouteRule as _, RouteView, RuleEntry};
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_api::status::Condition;
use holdfast_check::re2::Regexes;
use holdfast_envoy::features::Flaw;
use holdfast_envoy::model::PathMatch;
use holdfast_graph::ObjectKey;

use self::children::{ABOVE, GatewaysAbove, IdleAbove, RoutesAbove};
pub(super) use self::place::plan;
pub(super) use self::rule::translate;
use crate::narrowing::{self, Ranked};
use crate::outcome::claims::{HOSTNAMES, Parent, ParentOrigin, names_route};
use crate::outcome::delegation::{LABEL, REFUSED, RouteDelegation, RouteSelection};
use crate::policy::inheritance::InheritedPriority;
use crate::policy::route::Attached;
use crate::reader::Reader;

/// Maximum number of HTTPRoutes above a route.
pub(super) const DEPTH_MAX: usize = 8;
/// Maximum number of matches of one HTTPRoute that delegate to a route, for each way from a Gateway to that HTTPRoute.
pub(super) const DELEGATIONS_MAX: usize = 64;
/// Maximum number of matches of all HTTPRoutes that delegate to a route, for each way from a Gateway.
pub(super) const ALL_DELEGATIONS_MAX: usize = 256;
/// Maximum number of HTTPRoutes that delegate to one route, and of all that are examined above it, a route that is
/// reached twice counting twice. Each that delegates to the route has an equal share, and at least one of
/// [`DEPTH_MAX`].
pub(super) const ABOVE_MAX: usize = 256;

/// The reason of reports about a parentRef without a rule that serves the route.
const NO_PARENT: &str = "NoMatchingParent";
/// Annotations about the precedence of policies between a route and those that it delegates to.
const PRIORITY_ANNOTATIONS: [&str; 2] =
    ["kgateway.dev/inherited-policy-priority", "delegation.kgateway.dev/inherited-policy-priority"];
/// Maximum number of HTTPRoutes with a label that a rule reports because they cannot be below it, for each reference.
pub(super) const REFUSED_MAX: usize = 8;
/// Maximum number of HTTPRoutes with a label that a rule examines for that.
pub(super) const EXAMINED_MAX: usize = 256;
/// Number of characters of a value that a fault quotes.
const SHOWN_VALUE_CHARS: usize = 64;
/// Annotation of a route that takes over the match of the rule above.
const INHERIT_ANNOTATION: &str = "delegation.kgateway.dev/inherit-parent-matcher";
/// The field of that annotation.
const INHERIT_FIELD: &str = "metadata.annotations[delegation.kgateway.dev/inherit-parent-matcher]";

/// Returns whether a rule of an HTTPRoute delegates.
pub(super) fn delegates(object: &Object, backends: &[BackendRef]) -> bool {
    &*object.key.kind == kinds::HTTP_ROUTE
        && backends.iter().any(|reference| RouteSelection::of(reference, &object.key.namespace).is_some())
}

/// Returns whether a route uses default Gateways, or names a parent other than an HTTPRoute: then no rule can delegate to
/// it, whichever Gateways exist.
fn is_attached(route: &impl RouteView) -> bool {
    route.uses_default_gateways() || route.parents().iter().any(|reference| !names_route(reference))
}

/// Returns whether a route accepts requests from another one: its parentRefs name it, or there are none.
fn accepts(object: &Object, route: &impl RouteView, above: &ObjectKey) -> bool {
    let is_named = |namespace: &str, name: &str| (namespace, name) == (&*above.namespace, &*above.name);
    let mut parents = route.parents().iter();
    route.parents().is_empty()
        || parents.any(|parent| {
            is_named(parent.namespace.as_deref().unwrap_or(&object.key.namespace), &parent.name) && names_route(parent)
        })
}

/// Returns the field that keeps rules from delegating to a route, with the reason.
fn unserved(object: &Object) -> Option<(&'static str, String)> {
    let Body::HttpRoute(route) = &object.body else { return None };
    if !route.hostnames.is_empty() {
        // As in kgateway. Otherwise it would be served at hosts that it does not name.
        let message = "a route below other HTTPRoutes is served at their hosts: remove spec.hostnames";
        return Some((HOSTNAMES, message.into()));
    }
    let inherits = object.metadata.annotations.get(INHERIT_ANNOTATION)?;
    let is_set = ["true", "yes", "enabled"].contains(&inherits.to_ascii_lowercase().as_str());
    let message = format!(
        "the annotation {INHERIT_ANNOTATION} is not served: write the whole match in each rule, and remove the annotation"
    );
    is_set.then_some((INHERIT_FIELD, message))
}

/// Returns where the policies of a route are among those of the routes that it delegates to; a fault of the annotation if
/// it has a value that is not served.
fn priority(object: &Object) -> Result<InheritedPriority, Box<Fault>> {
    let annotations = &object.metadata.annotations;
    let Some((name, value)) = PRIORITY_ANNOTATIONS.iter().find_map(|name| annotations.get_key_value(*name)) else {
        return Ok(InheritedPriority::Protections);
    };
    match value.as_str() {
        "ShallowMergePreferChild" | "PreferChild" => Ok(InheritedPriority::Child),
        "ShallowMergePreferParent" | "PreferParent" => Ok(InheritedPriority::Parent),
        _ => {
            let shown: String = value.chars().take(SHOWN_VALUE_CHARS).collect();
            let message = format!(
                "the value {shown:?} of the annotation {name} is not served, and no rule delegates: use \
                 ShallowMergePreferChild or ShallowMergePreferParent"
            );
            let field = format!("metadata.annotations[{name}]");
            Err(Box::new(Fault::new(&object.key, Class::Invalid, field, "UnsupportedValue", message)))
        }
    }
}

/// Returns the flaws that keep a rule from delegating, besides the annotation of its route. Settings of the rule would not reach the other routes, so that
/// such a rule is not served at all.
fn flaws(object: &Object, rule: &HttpRule, matches: &[Ranked]) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for (index, reference) in rule.backends().iter().enumerate() {
        if RouteSelection::of(reference, &object.key.namespace).is_none() {
            let message = "a rule that delegates to HTTPRoutes can have no other backends: move them to another rule";
            flaws.push(Flaw::new(at("backendRefs", index), message));
        }
        if reference.filters.as_ref().is_some_and(|filters| !filters.is_empty()) {
            flaws.push(Flaw::new(format!("{}.filters", at("backendRefs", index)), elsewhere("filters")));
        }
    }
    for (index, ranked) in matches.iter().enumerate() {
        if !matches!(ranked.matches.path, PathMatch::Prefix(_)) {
            let message = "must be of type PathPrefix in a rule that delegates to HTTPRoutes";
            flaws.push(Flaw::new(format!("{}.path.type", at("matches", index)), message));
        }
    }
    let set = [
        ("filters", !rule.filters().is_empty()),
        ("timeouts", rule.timeouts.is_some()),
        ("retry", rule.retry.is_some()),
        ("sessionPersistence", rule.session_persistence.is_some()),
    ];
    flaws.extend(set.into_iter().filter(|(_, is_set)| *is_set).map(|(field, _)| Flaw::new(field, elsewhere(field))));
    flaws
}

fn elsewhere(field: &str) -> String {
    format!(
        "a rule that delegates to HTTPRoutes cannot have {field}: write {field} in the rules of these HTTPRoutes, or \
         attach a TrafficPolicy"
    )
}

/// Returns the limits for reading the matches of another HTTPRoute, which count for that object.
fn regexes(settings: &Settings) -> Regexes {
    Regexes::of_object(narrowing::limits(settings))
}

/// Returns a rule of an HTTPRoute, if it can be read.
fn rule_of(object: &Object, index: usize) -> Option<&HttpRule> {
    let Body::HttpRoute(route) = &object.body else { return None };
    match route.rules.get(index)? {
        RuleEntry::Decoded(rule) => Some(rule),
        RuleEntry::Broken { .. } => None,
    }
}

/// What claims of a route have from other HTTPRoutes.
#[derive(Default)]
pub(super) struct ClaimedDelegations {
    pub(super) delegations: Vec<RouteDelegation>,
    /// The indexes of the parentRefs that name HTTPRoutes.
    pub(super) references: BTreeSet<usize>,
    /// The HTTPRoutes that select the route, which cannot be below them.
    pub(super) refused: Vec<Parent>,
    /// Whether HTTPRoutes of other controllers delegate to the route, and no other.
    pub(super) is_anothers: bool,
    /// Whether an HTTPRoute selects the route, or a report states why it gives nothing.
    pub(super) is_selected: bool,
}

/// Returns the rules that delegate to a route, and reports parentRefs to HTTPRoutes without such a rule.
pub(super) fn below(
    object: &Object,
    settings: &Settings,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) -> ClaimedDelegations {
    let Body::HttpRoute(route) = &object.body else { return ClaimedDelegations::default() };
    let is_attached = is_attached(&**route);
    let before = faults.len();
    let above = if is_attached { RoutesAbove::default() } else { children::of(object, settings, reader, faults) };
    let mut below = ClaimedDelegations { is_anothers: above.is_anothers, ..ClaimedDelegations::default() };
    for (index, reference) in route.parents.iter().enumerate().filter(|(_, reference)| names_route(reference)) {
        below.references.insert(index);
        let field = at("spec.parentRefs", index);
        if is_attached {
            let message = "an HTTPRoute is no parent beside a Gateway: a route is either attached to Gateways or below \
                           HTTPRoutes";
            faults.push(Fault::new(&object.key, Class::Ignored, field, "NotServed", message));
            continue;
        }
        faults.extend(parts_of_routes(object, reference, &field));
        faults.extend(named(object, (reference, field), &above, settings, reader, &mut below));
    }
    below.is_anothers &= above.delegations.is_empty() && above.refused.is_empty();
    let is_nowhere = above.delegations.is_empty() && above.refused.is_empty() && !below.is_anothers;
    below.refused.extend(refused(object, &above.refused));
    idle(object, &above.idle, is_nowhere, &mut below.refused);
    if route.parents.is_empty() {
        let is_reported = faults.len() > before;
        let is_missed =
            |(index, idle): &(usize, &IdleAbove)| idle.is_missed() || (*index == 0 && is_nowhere && !is_reported);
        let missed = above.idle.iter().enumerate().filter(is_missed).take(PARENTS_MAX);
        faults.extend(missed.map(|(_, idle)| gives_nothing(object, idle)));
    }
    below.is_selected = !above.delegations.is_empty() || faults.len() > before;
    below.delegations = above.delegations;
    below
}

/// Returns the report about an HTTPRoute that selects a route without parentRefs and gives it no requests.
fn gives_nothing(object: &Object, idle: &IdleAbove) -> Fault {
    let message = format!(
        "HTTPRoute {} selects the route, but {}: until this changes, it gives this route no requests",
        idle.key.namespaced_name(),
        idle.why()
    );
    Fault::new(&object.key, Class::Ignored, ABOVE, NO_PARENT, message).caused_by(idle.cause().cloned())
}

/// Returns the faults of a parentRef that names a part of an HTTPRoute.
fn parts_of_routes(object: &Object, reference: &ParentRef, field: &str) -> Vec<Fault> {
    let set = [("sectionName", reference.section_name.is_some()), ("port", reference.port.is_some())];
    let fault = |(name, _)| {
        let message = format!(
            "{name} has no effect where the parent is an HTTPRoute: every rule of it that selects the route delegates to \
             it. Remove {name}"
        );
        Fault::new(&object.key, Class::Ignored, format!("{field}.{name}"), "NotServed", message)
    };
    set.into_iter().filter(|(_, is_set)| *is_set).map(fault).collect()
}

/// Returns the fault of a parentRef to an HTTPRoute that gives the route no requests; `None` if it does, or belongs to
/// another controller.
fn named(
    object: &Object,
    (reference, field): (&ParentRef, String),
    above: &RoutesAbove,
    settings: &Settings,
    reader: &mut Reader<'_>,
    below: &mut ClaimedDelegations,
) -> Option<Fault> {
    let namespace = reference.namespace.as_deref().unwrap_or(&object.key.namespace);
    let named = ObjectKey::new(GROUP, kinds::HTTP_ROUTE, namespace, reference.name.clone());
    // The route is translated again when that route changes, or is served in another version.
    let found = reader.object(&named);
    let is_below = |one: &RouteDelegation| one.chain.last().is_some_and(|(key, _)| *key == named);
    if above.delegations.iter().chain(&above.refused).any(is_below) {
        return None;
    }
    let gateways = found.map(|found| children::gateways_above(found, &object.key, settings, reader));
    let (why, cause) = match found {
        Some(found) => why_idle(found, &above.idle, matches!(gateways, Some(GatewaysAbove::Served(_)))),
        None => (reader.lacking(&named).to_owned(), None),
    };
    let message = format!("HTTPRoute {} {why}, so that it gives this route no requests", named.namespaced_name());
    match gateways {
        Some(GatewaysAbove::Anothers) => {
            below.is_anothers = true;
            return None;
        }
        Some(GatewaysAbove::Served(gateways)) => {
            let accepted = Condition::new("Accepted", false, NO_PARENT, message.clone());
            add_refusing(&mut below.refused, (object, &named), &gateways, &accepted);
        }
        Some(GatewaysAbove::Unattached) | None => {}
    }
    Some(Fault::new(&object.key, Class::Referential, field, NO_PARENT, message).caused_by(cause))
}

/// Returns why an HTTPRoute that a route names gives it no requests, and the HTTPRoute to edit, if it is another one.
fn why_idle(above: &Object, idle: &[IdleAbove], has_gateways: bool) -> (String, Option<ObjectKey>) {
    if let Some(idle) = idle.iter().find(|idle| idle.key == above.key) {
        return (idle.why(), idle.cause().cloned());
    }
    let Body::HttpRoute(route) = &above.body else { return ("is no HTTPRoute".to_owned(), None) };
    if route.rules.iter().any(|rule| matches!(rule, RuleEntry::Broken { .. })) {
        let why = "has no other rule for it than one that cannot be read (see the status there)";
        return (why.to_owned(), Some(above.key.clone()));
    }
    let why = if has_gateways {
        "has no rule that delegates to this route"
    } else {
        "is attached to no Gateway that is served"
    };
    (why.to_owned(), None)
}

/// Returns the HTTPRoutes that select a route with a field that keeps it from being below them, as parents.
fn refused(object: &Object, all: &[RouteDelegation]) -> Vec<Parent> {
    let Some((field, message)) = unserved(object) else { return Vec::new() };
    let mut parents: Vec<Parent> = Vec::new();
    // Without a match of the route, a rule may select it together with others only.
    let is_given = all.iter().any(|delegation| !delegation.is_empty);
    for delegation in all.iter().filter(|delegation| !(is_given && delegation.is_empty)) {
        let Some((above, rule)) = delegation.chain.last() else { continue };
        let message = format!(
            "{field}: {message}. Until then the route is not served below {}, and requests of its rules[{rule}] that no \
             other HTTPRoute takes are answered with 404 or 500",
            above.namespaced_name()
        );
        let accepted = Condition::new("Accepted", false, "UnsupportedValue", message);
        let gateways = delegation.parents.iter().map(|parent| &parent.gateway);
        add_refusing(&mut parents, (object, above), gateways, &accepted);
    }
    parents
}

/// Adds the HTTPRoutes that select a route and give it no requests, as parents: those that it names, those with requests
/// that it has a match for, and all if it names none and is `nowhere` else.
fn idle(object: &Object, all: &[IdleAbove], is_nowhere: bool, parents: &mut Vec<Parent>) {
    let is_any_named = object.body.route().is_some_and(|route| !route.parents().is_empty());
    for idle in all.iter().filter(|idle| is_any_named || is_nowhere || idle.is_missed()) {
        let name = idle.key.namespaced_name();
        let message = format!("HTTPRoute {name} {}, so that it gives this route no requests", idle.why());
        let accepted = Condition::new("Accepted", false, NO_PARENT, message);
        add_refusing(parents, (object, &idle.key), idle.gateways(), &accepted);
    }
}

/// Adds an HTTPRoute above a route that does not serve it, once for each Gateway, as far as a status has room.
fn add_refusing<'a>(
    parents: &mut Vec<Parent>,
    (object, above): (&Object, &ObjectKey),
    gateways: impl IntoIterator<Item = &'a ObjectKey>,
    accepted: &Condition,
) {
    let (reference, written) = reference_to(object, above);
    let index = written.unwrap_or(object.body.route().map_or(0, |route| route.parents().len()) + parents.len());
    for gateway in gateways {
        let is_known = parents.iter().any(|known| (&known.reference, &known.gateway) == (&reference, gateway));
        if is_known || parents.len() >= PARENTS_MAX {
            continue;
        }
        parents.push(Parent {
            reference: reference.clone(),
            origin: ParentOrigin::ParentRef(index),
            gateway: gateway.clone(),
            set: None,
            accepted: accepted.clone(),
            attachments: Vec::new(),
        });
    }
}

/// Returns the parentRef of a route that names a route above it, with its index; a new one without an index if none does.
fn reference_to(object: &Object, above: &ObjectKey) -> (ParentRef, Option<usize>) {
    let written = object.body.route().map(|route| route.parents()).unwrap_or_default();
    let index = written.iter().position(|reference| {
        let namespace = reference.namespace.as_deref().unwrap_or(&object.key.namespace);
        names_route(reference) && (namespace, &*reference.name) == (&*above.namespace, &*above.name)
    });
    let known = index.and_then(|index| written.get(index)).cloned();
    let reference = known.unwrap_or_else(|| ParentRef {
        group: Some(GROUP.into()),
        kind: Some(kinds::HTTP_ROUTE.into()),
        namespace: Some(above.namespace.clone()),
        name: above.name.clone(),
        section_name: None,
        port: None,
    });
    (reference, index)
}

/// Returns the fault of a label by which an HTTPRoute selects a route that is attached to Gateways. It depends on the
/// claims of the routes above, which must not depend on it: routes with one label can select each other.
pub(super) fn label_without_effect(object: &Object, settings: &Settings, reader: &mut Reader<'_>) -> Option<Fault> {
    let Body::HttpRoute(route) = &object.body else { return None };
    if !is_attached(&**route) {
        return None;
    }
    let above = children::selecting_by_label(object, settings, reader)?;
    let message = format!(
        "HTTPRoute {} selects this route by the label, but a route with a Gateway or ListenerSet among its parents is \
         below no HTTPRoute: it does not get the requests of that rule. Remove these parents to serve it there, or remove \
         the label",
        above.namespaced_name()
    );
    Some(Fault::new(&object.key, Class::Ignored, format!("metadata.labels[{LABEL}]"), REFUSED, message))
}

/// Adds the policies of the routes above to those of a route, the nearest first.
pub(super) fn inherit<'a>(attached: &mut Attached<'a>, above: &[(ObjectKey, usize)], reader: &mut Reader<'a>) {
    for (key, rule) in above.iter().rev() {
        let Some(object) = reader.object(key) else { continue };
        let name = rule_of(object, *rule).and_then(|rule| rule.name.as_deref());
        // Below a route with another value of the annotation, nothing is served. An earlier version of the route gives
        // the routes below no more than the desired version does.
        let versions = [Some(object), reader.replaced(key)].into_iter().flatten();
        let strictest = versions.map(|object| priority(object).unwrap_or(InheritedPriority::Parent)).max();
        attached.inherit(object, name, strictest.unwrap_or(InheritedPriority::Parent), reader);
    }
}
