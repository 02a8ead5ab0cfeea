//! Audit of routes to which other HTTPRoutes delegate: each such route is below a rule that names it now, has only
//! requests of that rule, and has the policies of every route above it, which no other namespace weakens.
//!
//! References, matches and attachments are read from the written form of the objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use gateway_api::httproutes::HttpRouteRulesMatchesPathType as PathType;
use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::http_route::HttpRule;
use holdfast_api::apis::gateway::references::BackendRef;
use holdfast_api::apis::gateway::route::{RouteView as _, RuleEntry};
use holdfast_api::apis::kinds;
use holdfast_api::object::Object;
use holdfast_envoy::model::Route;
use holdfast_graph::{Node, ObjectKey};
use holdfast_translate::overlay::Overlay;
use holdfast_translate::precedence::merge::Origins;
use holdfast_translate::precedence::settings::Piece;
use holdfast_translate::route::{Rendered, RoutePlan};

use super::above::{self, ServedBelow};
use super::meeting::is_below;
use super::policies::{self, is_closed};
use super::today::Today;
use super::{About, Objection};
use crate::plan::world::World;

/// The label by which references select routes.
const LABEL: &str = "delegation.kgateway.dev/label";
/// The group of these references.
const LABEL_GROUP: &str = "delegation.kgateway.dev";

/// Returns objections to routes that no rule above delegates to, or that have requests of others.
pub(super) fn check(
    object: &Object,
    plan: &RoutePlan,
    overlay: &Overlay,
    world: &World<'_>,
    today: &Today<'_>,
) -> Vec<Objection> {
    let mut found = Vec::new();
    for rendered in plan.routes.iter().filter(|rendered| !is_closed(&rendered.route.action, world)) {
        let why = rendered.delegated().and_then(|of| {
            let is_outside = |above: &(ObjectKey, usize)| !is_within(&rendered.route, above, overlay, today);
            let mut reason = (!is_named(object, &of.chain, today)).then_some("no rule delegates to it today");
            if of.chain.iter().any(is_outside) {
                reason = reason.or(Some("it would get requests that the rule above does not have"));
            }
            reason
        });
        let below = ServedBelow { object, plan, rendered };
        let why = why.map(|why| (About::Reach, why.to_owned()));
        if let Some((about, why)) = why.or_else(|| above::objection(&below, overlay, world, today)) {
            let node = Node::section(object.key.clone(), rendered.route.section.clone());
            found.push(Objection::new(node, about, why));
        }
    }
    found
}

/// Returns the objects at the top of the routes of a plan, where every route between names the next one today.
pub(super) fn tops<'t>(object: &Object, plan: &RoutePlan, today: &Today<'t>) -> Vec<&'t Arc<Object>> {
    let chains = plan.routes.iter().filter_map(|rendered| rendered.delegated()).map(|of| &of.chain);
    let chains: BTreeSet<&Vec<(ObjectKey, usize)>> = chains.filter(|chain| is_named(object, chain, today)).collect();
    chains.into_iter().filter_map(|chain| today.object(&chain.first()?.0)).collect()
}

/// Returns the first HTTPRoute above the routes of a plan that is served in an earlier version: it is the reason why they
/// would be served otherwise than now.
pub(super) fn earlier_above<'o>(plan: &RoutePlan, overlay: &'o Overlay) -> Option<&'o ObjectKey> {
    let chains = plan.routes.iter().filter_map(|rendered| rendered.delegated()).flat_map(|of| &of.chain);
    let mut earlier = chains.filter_map(|(above, _)| overlay.objects.get_key_value(above));
    earlier.next().map(|(above, _)| above)
}

/// Returns the policies that a route has to have from the routes above it.
pub(super) fn inherited<'t>(rendered: &Rendered, overlay: &Overlay, today: &Today<'t>) -> Vec<&'t ObjectKey> {
    let chain = rendered.delegated().into_iter().flat_map(|of| &of.chain);
    chain.flat_map(|above| attached_above(above, overlay, today)).collect()
}

/// Returns the policies of a route above: those of the whole route, and those of the delegating rule by its name.
fn attached_above<'t>(above: &(ObjectKey, usize), overlay: &Overlay, today: &Today<'t>) -> Vec<&'t ObjectKey> {
    let Some(object) = today.object(&above.0) else { return Vec::new() };
    let name = rule(above, overlay, today).and_then(|rule| rule.name.clone());
    let attached = today.attached(object).into_iter();
    // A policy of one rule may be meant for any rule of an object that cannot be read.
    let is_unread = today.is_unusable(&above.0);
    let own = attached.filter(|(policy, section)| {
        section.is_none_or(|section| Some(section) == name.as_deref() || (is_unread && policies::guards(policy, today)))
    });
    own.map(|(policy, _)| policy).collect()
}

/// Returns which protection of a route above would be replaced by a policy of another namespace, unless the route above
/// allows it. Policies of routes further above may come first.
pub(super) fn weakened(
    rendered: &Rendered,
    origins: &Origins,
    overlay: &Overlay,
    world: &World<'_>,
    today: &Today<'_>,
) -> Option<String> {
    let chain = &rendered.delegated()?.chain;
    for (position, above) in chain.iter().enumerate() {
        let Some(object) = today.object(&above.0).filter(|object| !prefers_child(object)) else { continue };
        let higher: Vec<&str> = chain[..position].iter().map(|(key, _)| &*key.namespace).collect();
        let is_allowed =
            |first: &ObjectKey| first.namespace == object.key.namespace || higher.contains(&&*first.namespace);
        for policy in attached_above(above, overlay, today) {
            let (Some(written), Some(plan)) =
                (today.object(policy), overlay.policies.get(policy).or_else(|| world.translator.policy(policy)))
            else {
                continue;
            };
            let protects = |field: &str, piece: &Piece| {
                piece.protects() && !piece.disables() && !policies::is_free_of(field, written)
            };
            for (field, _) in plan.settings.iter().filter(|(field, piece)| protects(field, piece)) {
                let of_others = origins.get(field).into_iter().flatten().find(|origin| !is_allowed(origin));
                if let Some(other) = of_others {
                    return Some(format!("{other} would replace or extend {field} of {policy}"));
                }
            }
        }
    }
    None
}

/// Checks whether a route lets policies of the routes below it come first.
fn prefers_child(object: &Object) -> bool {
    let annotation = |name: &str| object.metadata.annotations.get(name).map(String::as_str);
    let written = annotation("kgateway.dev/inherited-policy-priority")
        .or_else(|| annotation("delegation.kgateway.dev/inherited-policy-priority"));
    matches!(written, Some("ShallowMergePreferChild" | "PreferChild"))
}

/// Checks whether each route of a chain has a rule today that names the next one, the last one the object.
fn is_named(object: &Object, chain: &[(ObjectKey, usize)], today: &Today<'_>) -> bool {
    let mut below = Some(object);
    for (key, _) in chain.iter().rev() {
        let (Some(next), Some(above)) = (below, today.object(key)) else { return false };
        let Body::HttpRoute(route) = &above.body else { return false };
        if !route.rules.iter().any(|entry| may_select(entry, &above.key, next)) || !accepts(next, key) {
            return false;
        }
        below = Some(above);
    }
    true
}

/// Checks whether a rule delegates to a route, or may do so by references that cannot be read.
pub(super) fn may_select(entry: &RuleEntry<HttpRule>, above: &ObjectKey, object: &Object) -> bool {
    entry.may_have_more_backends() || entry.backends().iter().any(|reference| names(reference, above, object))
}

/// Checks whether a rule delegates, or may do so.
pub(super) fn delegates(entry: &RuleEntry<HttpRule>) -> bool {
    let is_route = |reference: &BackendRef| {
        matches!(
            (reference.group.as_deref(), reference.kind.as_deref()),
            (Some(GROUP), Some(kinds::HTTP_ROUTE)) | (Some(LABEL_GROUP), Some("label"))
        )
    };
    entry.may_have_more_backends() || entry.backends().iter().any(is_route)
}

fn names(reference: &BackendRef, above: &ObjectKey, object: &Object) -> bool {
    let namespace = reference.namespace.as_ref().unwrap_or(&above.namespace);
    let is_here = *namespace == object.key.namespace;
    match (reference.group.as_deref(), reference.kind.as_deref()) {
        (Some(GROUP), Some(kinds::HTTP_ROUTE)) => {
            is_here && (reference.name == object.key.name || matches!(&*reference.name, "*" | ""))
        }
        (Some(LABEL_GROUP), Some("label")) => {
            let has = object.metadata.labels.get(LABEL).is_some_and(|value| **value == *reference.name);
            has && (is_here || **namespace == *"all")
        }
        _ => false,
    }
}

/// Checks whether the parentRefs of a route name a route above it, or nothing.
fn accepts(object: &Object, above: &ObjectKey) -> bool {
    let Body::HttpRoute(route) = &object.body else { return false };
    let mut parents = route.parents().iter();
    if route.uses_default_gateways() {
        return false;
    }
    route.parents().is_empty()
        || parents.any(|parent| {
            let namespace = parent.namespace.as_ref().unwrap_or(&object.key.namespace);
            parent.kind.as_deref() == Some(kinds::HTTP_ROUTE)
                && parent.name == above.name
                && *namespace == above.namespace
        })
}

/// Returns a rule of a route in the version that is served.
fn rule<'r>((key, index): &(ObjectKey, usize), overlay: &'r Overlay, today: &'r Today<'_>) -> Option<&'r HttpRule> {
    let object = overlay.objects.get(key).or_else(|| today.object(key))?;
    let Body::HttpRoute(route) = &object.body else { return None };
    match route.rules.get(*index)? {
        RuleEntry::Decoded(rule) => Some(rule),
        RuleEntry::Broken { .. } => None,
    }
}

/// Checks whether all paths of a route are below a path of the rule above it.
fn is_within(route: &Route, above: &(ObjectKey, usize), overlay: &Overlay, today: &Today<'_>) -> bool {
    let Some(rule) = rule(above, overlay, today) else { return false };
    let written = rule.matches.as_deref().unwrap_or_default();
    written.is_empty()
        || written.iter().any(|one| {
            let Some(outer) = &one.path else { return true };
            matches!(outer.r#type, None | Some(PathType::PathPrefix))
                && is_below(&route.matches.path, outer.value.as_deref().unwrap_or("/"))
        })
}
