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
use holdfast_api::apis::gateway::references::BackendRef;
use holdfast_api::apis::gateway::route::{RouteRule as _, RouteView, RuleEntry};
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_check::re2::Regexes;
use holdfast_envoy::features::Flaw;
use holdfast_envoy::model::PathMatch;
use holdfast_graph::ObjectKey;

pub(super) use self::place::plan;
pub(super) use self::rule::translate;
use crate::narrowing::{self, Ranked};
use crate::outcome::claims::{HOSTNAMES, names_route};
use crate::outcome::delegation::{RouteDelegation, RouteSelection};
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

/// Annotations about the precedence of policies between a route and those that it delegates to.
const PRIORITY_ANNOTATIONS: [&str; 2] =
    ["kgateway.dev/inherited-policy-priority", "delegation.kgateway.dev/inherited-policy-priority"];
/// Number of characters of a value that a fault quotes.
const SHOWN_VALUE_CHARS: usize = 64;
/// Annotation of a route that takes over the match of the rule above.
const INHERIT_ANNOTATION: &str = "delegation.kgateway.dev/inherit-parent-matcher";

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
    let message = format!("the annotation {INHERIT_ANNOTATION} is not served: write the whole match in each rule");
    is_set.then_some(("metadata.annotations", message))
}

/// Returns where the policies of a route are among those of the routes that it delegates to; an error if the annotation
/// has a value that is not served.
fn priority(object: &Object) -> Result<InheritedPriority, String> {
    let annotations = &object.metadata.annotations;
    let Some((name, value)) = PRIORITY_ANNOTATIONS.iter().find_map(|name| annotations.get_key_value(*name)) else {
        return Ok(InheritedPriority::Protections);
    };
    match value.as_str() {
        "ShallowMergePreferChild" | "PreferChild" => Ok(InheritedPriority::Child),
        "ShallowMergePreferParent" | "PreferParent" => Ok(InheritedPriority::Parent),
        _ => {
            let shown: String = value.chars().take(SHOWN_VALUE_CHARS).collect();
            Err(format!(
                "the value {shown:?} of the annotation {name} is not served: use ShallowMergePreferChild or \
                 ShallowMergePreferParent"
            ))
        }
    }
}

/// Returns the flaws that keep a rule from delegating. Settings of the rule would not reach the other routes, so that
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
    flaws.extend(priority(object).err().map(|message| Flaw::new("backendRefs", message)));
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
    let delegations = if is_attached { Vec::new() } else { children::of(object, settings, reader, faults) };
    let mut references = BTreeSet::new();
    for (index, reference) in route.parents.iter().enumerate().filter(|(_, reference)| names_route(reference)) {
        references.insert(index);
        let namespace = reference.namespace.as_deref().unwrap_or(&object.key.namespace);
        let above = ObjectKey::new(GROUP, kinds::HTTP_ROUTE, namespace, reference.name.clone());
        // The route is translated again when that route changes, or is served in another version.
        let exists = reader.object(&above).is_some();
        let name = above.namespaced_name();
        let is_below = |delegation: &RouteDelegation| delegation.chain.last().is_some_and(|(key, _)| *key == above);
        let (class, reason, message) = if is_attached {
            let message = "an HTTPRoute is no parent beside a Gateway: a route is either attached to Gateways or below HTTPRoutes";
            (Class::Ignored, "NotServed", message.to_owned())
        } else if delegations.iter().any(is_below) {
            continue;
        } else if exists {
            let message = format!(
                "HTTPRoute {name} has no rule that delegates to this route, or is not attached to a Gateway itself: \
                 the route is not served below it"
            );
            (Class::Referential, "NoMatchingParent", message)
        } else {
            let message = format!("HTTPRoute {name} {}: the route is not served below it", reader.lacking(&above));
            (Class::Referential, "NoMatchingParent", message)
        };
        faults.push(Fault::new(&object.key, class, at("spec.parentRefs", index), reason, message));
    }
    ClaimedDelegations { delegations, references }
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
