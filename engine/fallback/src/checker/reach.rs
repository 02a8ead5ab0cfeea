//! Audit of the places of a route object: only places (table and host) that the current object claims are allowed.
//!
//! Parents, hostnames, kinds, namespaces and the ownership of hosts are computed again from the Gateway API
//! specification.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::references::ParentRef;
use holdfast_api::apis::{Body, kinds, scheme};
use holdfast_api::object::Object;
use holdfast_envoy::model::table::TableName;
use holdfast_graph::ObjectKey;
use holdfast_translate::claims::ListenerId;
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::listener::{ListenerPlan, ListenerState, Namespaces};
use holdfast_translate::overlay::Overlay;
use holdfast_translate::route::RoutePlan;

use super::today::Today;
use super::versions::hostnames;
use super::{About, Objection, delegation};
use crate::plan::world::World;

/// A place of a Gateway: table and host.
type Place = (TableName, String);

/// Returns objections to places that the route must not have, and to listeners with a host that routes of another kind
/// own.
pub(super) fn check(
    key: &ObjectKey,
    plan: &RoutePlan,
    overlay: &Overlay,
    gateway: &GatewayPlan,
    world: &World<'_>,
    today: &Today<'_>,
) -> Vec<Objection> {
    // If the current content of an object cannot be read, its claims are those of its stand-in version.
    let stand_in = || overlay.objects.get(key).filter(|_| today.is_unusable(key));
    let Some(object) = today.object(key).or_else(stand_in) else {
        return vec![Objection::whole(key, About::Existence, "it was deleted, and would be served again")];
    };
    let mut found = Vec::new();
    let tops = delegation::tops(object, plan, today);
    let above = tops.iter().flat_map(|top| allowed(top, gateway, world, today));
    let allowed: BTreeSet<Place> = allowed(object, gateway, world, today).into_iter().chain(above).collect();
    let mut lent = lent(object, plan, overlay, gateway, world, today);
    lent.extend(tops.iter().flat_map(|top| self::lent(top, plan, overlay, gateway, world, today)));
    let tables = tables(gateway);
    for (_, table, host) in plan.places.iter().filter(|(at, table, _)| at == world.gateway && tables.contains(table)) {
        let place = (table.clone(), host.domain().to_owned());
        if !allowed.contains(&place) && !lent.contains(&place) {
            let why = format!("it would be in {table:?} for host {:?}, which it does not claim today", host.domain());
            found.push(Objection::whole(key, About::Reach, why));
        }
    }
    found.extend(foreign_listeners(key, plan, &tops, world));
    found
}

/// Returns objections to listeners to which neither the desired version of a route is attached, nor the desired version
/// of a route at the top of those that delegate to it. If routes of both kinds claim a host, the older one owns it, and
/// the desired version must own it as well.
fn foreign_listeners(key: &ObjectKey, plan: &RoutePlan, tops: &[&Arc<Object>], world: &World<'_>) -> Vec<Objection> {
    let Some(desired) = world.translator.route(key) else { return Vec::new() };
    let above = tops.iter().filter_map(|top| world.translator.route(&top.key));
    let of_desired: BTreeSet<&ListenerId> = above.chain([desired]).flat_map(|plan| owned_listeners(plan)).collect();
    let foreign = owned_listeners(plan).filter(|listener| !of_desired.contains(listener));
    let objection = |listener: &ListenerId| {
        let why =
            format!("it would be attached to listener {}, to which the desired version is not attached", listener.name);
        Objection::whole(key, About::Reach, why)
    };
    foreign.map(objection).collect()
}

/// Returns the listeners with a host that a route claims itself.
fn owned_listeners(plan: &RoutePlan) -> impl Iterator<Item = &ListenerId> {
    let attachments = plan.parents.iter().flat_map(|parent| &parent.attachments);
    let own = attachments.filter(|attachment| attachment.hosts.len() > attachment.lent.len());
    own.map(|attachment| &attachment.listener)
}

/// Returns the tables of a Gateway that have routes.
fn tables(gateway: &GatewayPlan) -> BTreeSet<TableName> {
    let mut tables = BTreeSet::new();
    for listener in &gateway.listeners {
        match (listener.state, listener.has_own_table()) {
            (ListenerState::Serving, _) | (ListenerState::Closed | ListenerState::Refused, false) => {
                tables.insert(table(listener))
            }
            (ListenerState::Closed | ListenerState::Refused, true) | (ListenerState::Out, _) => false,
        };
    }
    tables
}

fn table(listener: &ListenerPlan) -> TableName {
    match listener.has_own_table() {
        true => TableName::Listener(listener.name.clone()),
        false => TableName::Port(listener.port),
    }
}

/// Returns every place that the object may have.
fn allowed(object: &Object, gateway: &GatewayPlan, world: &World<'_>, today: &Today<'_>) -> BTreeSet<Place> {
    let listeners = gateway.listeners.iter();
    listeners.flat_map(|listener| allowed_at(object, listener, gateway, world, today)).collect()
}

fn allowed_at(
    object: &Object,
    listener: &ListenerPlan,
    gateway: &GatewayPlan,
    world: &World<'_>,
    today: &Today<'_>,
) -> BTreeSet<Place> {
    let Some(route) = object.body.route() else { return BTreeSet::new() };
    let (parents, hostnames) = (route.parents(), route.hostnames());
    let is_default = || match today.object(world.gateway).map(|gateway| &gateway.body) {
        Some(Body::Gateway(gateway)) => gateway.is_default && listener.set.is_none(),
        _ => false,
    };
    let named = parents.iter().any(|parent| names(parent, &object.key, world.gateway, listener))
        || (route.uses_default_gateways() && is_default());
    let serves = listener.state == ListenerState::Serving && listener.kinds.contains(&*object.key.kind);
    if !serves || !named || !allows_route(listener, &object.key, world, today) {
        return BTreeSet::new();
    }
    let own = listener.hostname.as_deref().unwrap_or("*");
    let claimed: Vec<&str> = match hostnames.is_empty() {
        true => vec![own],
        false => hostnames.iter().filter_map(|hostname| common(own, hostname)).collect(),
    };
    let hosts = claimed.into_iter().filter(|host| has(listener, host, gateway));
    hosts.map(|host| (table(listener), host.to_owned())).collect()
}

/// Returns the allowed places that only a stand-in version claims: it yields to other claims there, and no route of the
/// other kind has the host now.
fn lent(
    object: &Object,
    plan: &RoutePlan,
    overlay: &Overlay,
    gateway: &GatewayPlan,
    world: &World<'_>,
    today: &Today<'_>,
) -> BTreeSet<Place> {
    let own = plan.lent.iter().filter(|(at, _, _)| at == world.gateway);
    let yielding: BTreeSet<Place> = own.map(|(_, table, host)| (table.clone(), host.domain().to_owned())).collect();
    // Only a claim that cannot be used falls back.
    let falls_back = hostnames(object).iter().any(|hostname| holdfast_check::host::hostname(hostname).is_err());
    let Some(stand_in) = overlay.objects.get(&object.key).filter(|_| falls_back && !yielding.is_empty()) else {
        return BTreeSet::new();
    };
    let routes = world.translator.route_keys();
    let others = routes.iter().filter(|key| key.kind != object.key.kind).filter_map(|key| today.object(key));
    let others: Vec<_> = others.collect();
    let mut lent = BTreeSet::new();
    for listener in &gateway.listeners {
        let claimed = others.iter().flat_map(|other| allowed_at(other, listener, gateway, world, today));
        let claimed: Vec<Place> = claimed.collect();
        let own = allowed_at(stand_in, listener, gateway, world, today).into_iter();
        lent.extend(own.filter(|(_, host)| claimed.iter().all(|(_, other)| common(host, other).is_none())));
    }
    lent.intersection(&yielding).cloned().collect()
}

/// Checks whether a parentRef of a route refers to this listener. A reference to a Gateway covers the Gateway's own
/// listeners; a reference to a ListenerSet covers the listeners of the set.
fn names(parent: &ParentRef, route: &ObjectKey, gateway: &ObjectKey, listener: &ListenerPlan) -> bool {
    let (kind, owner, section) = match &listener.set {
        Some(set) => (kinds::LISTENER_SET, &set.key, &set.section),
        None => (kinds::GATEWAY, gateway, &listener.name),
    };
    parent.group.as_deref().is_none_or(|group| group == GROUP)
        && parent.kind.as_deref().unwrap_or(kinds::GATEWAY) == kind
        && *parent.namespace.as_ref().unwrap_or(&route.namespace) == owner.namespace
        && parent.name == owner.name
        && parent.section_name.as_ref().is_none_or(|name| name == section)
        && parent.port.is_none_or(|port| port == listener.declared_port)
}

fn allows_route(listener: &ListenerPlan, route: &ObjectKey, world: &World<'_>, today: &Today<'_>) -> bool {
    let own = listener.set.as_ref().map_or(&world.gateway.namespace, |set| &set.key.namespace);
    let selector = match &listener.namespaces {
        Namespaces::All => return true,
        Namespaces::Same => return route.namespace == *own,
        Namespaces::None => return false,
        Namespaces::Selected(selector) => selector,
    };
    let mut labels: BTreeMap<&str, &str> = BTreeMap::new();
    let found = today.object(&scheme::namespace_key(&route.namespace));
    let is_known = found.is_some();
    match found {
        Some(namespace) => {
            labels.extend(namespace.metadata.labels.iter().map(|(name, value)| (&**name, &**value)));
        }
        // With manifests as the source of objects, Namespace objects are optional.
        None if world.settings.listen_address.is_some() => {}
        None => return false,
    }
    labels.entry("kubernetes.io/metadata.name").or_insert(&route.namespace);
    let wanted = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.iter().flatten();
    wanted.into_iter().all(|(name, value)| labels.get(&**name) == Some(&&**value))
        && expressions.into_iter().all(|expression| {
            let has = labels.get(&*expression.key).copied();
            let among = has.is_some_and(|has| expression.values.iter().flatten().any(|value| value == has));
            match &*expression.operator {
                "In" => among,
                "NotIn" => !among && (is_known || has.is_some()),
                "Exists" => has.is_some(),
                "DoesNotExist" => is_known && has.is_none(),
                _ => false,
            }
        })
}

/// Checks whether requests for a host reach this listener, and not a more specific listener of its port.
fn has(listener: &ListenerPlan, host: &str, gateway: &GatewayPlan) -> bool {
    let own = weight(listener);
    let others =
        gateway.listeners.iter().filter(|other| other.name != listener.name && other.bound() == listener.bound());
    let mut nearer = others.filter(|other| other.state != ListenerState::Out && weight(other) > own);
    !nearer.any(|other| includes(other.hostname.as_deref().unwrap_or("*"), host))
}

/// Returns how specific a listener's hostname is: precise names before wildcards, long names before short ones.
fn weight(listener: &ListenerPlan) -> (bool, usize) {
    let hostname = listener.hostname.as_deref().unwrap_or("*");
    (!hostname.starts_with('*'), hostname.len())
}

/// Returns the intersection of two hostnames; `None` if it is empty.
fn common<'a>(a: &'a str, b: &'a str) -> Option<&'a str> {
    if includes(a, b) {
        Some(b)
    } else if includes(b, a) {
        Some(a)
    } else {
        None
    }
}

/// Checks whether a pattern includes every host of `host`. Labels are compared from the right.
fn includes(pattern: &str, host: &str) -> bool {
    let mut labels = host.rsplit('.');
    let mut wanted = pattern.rsplit('.');
    loop {
        match (wanted.next(), labels.next()) {
            // A wildcard matches one label or more.
            (Some("*"), Some(_)) => return true,
            (Some(wanted), Some(label)) if wanted == label => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostnames_in_common() {
        let rows = [
            ("*", "*", Some("*")),
            ("*", "a.example.com", Some("a.example.com")),
            ("*.example.com", "a.b.example.com", Some("a.b.example.com")),
            ("*.example.com", "*.com", Some("*.example.com")),
            ("*.example.com", "*.example.com", Some("*.example.com")),
            ("*.example.com", "example.com", None),
            ("*.example.com", "aexample.com", None),
            ("a.example.com", "a.example.com", Some("a.example.com")),
            ("a.example.com", "b.example.com", None),
            ("example.com", "a.example.com", None),
        ];
        for (a, b, expected) in rows {
            assert_eq!(common(a, b), expected, "{a} and {b}");
            assert_eq!(common(b, a), expected, "{b} and {a}");
        }
    }
}
