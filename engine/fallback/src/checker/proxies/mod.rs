//! Audit of HTTPProxies: only proxies that take part now may have routes, at their current host, below the prefixes of
//! the current includes, with their current guards.
//!
//! Hosts, includes and delegations are read again from the objects. A root with all proxies that it includes is checked
//! as one, because a request that one proxy gives up goes to a route of another one.

mod certificates;
mod guards;
mod includes;

use std::collections::BTreeSet;

pub(super) use certificates::{verifies_clients, wrong as certificate};
use holdfast_api::apis::Body;
use holdfast_api::apis::contour::http_proxy::HttpProxy;
use holdfast_check::re2;
use holdfast_envoy::model::table::TableName;
use holdfast_envoy::model::{Action, PathMatch, Route};
use holdfast_graph::{Node, ObjectKey};
use holdfast_translate::httpproxy::is_proxy;
use holdfast_translate::overlay::Overlay;
use holdfast_translate::route::RoutePlan;
use includes::Included;

use super::backends;
use super::today::Today;
use super::{About, Objection};
use crate::plan::world::World;

/// Returns the roots with routes that the overlay affects.
pub(super) fn roots(overlay: &Overlay, world: &World<'_>) -> BTreeSet<ObjectKey> {
    let mut roots = BTreeSet::new();
    for key in overlay.keys() {
        if is_proxy(key) {
            roots.extend(world.translator.roots_reading(key));
        } else {
            roots.extend(world.translator.routes_reading(key).into_iter().filter(is_proxy));
        }
    }
    roots
}

/// Returns all objections to a root and the proxies that it includes, in the form in which they would be served.
pub(super) fn check(root: &ObjectKey, overlay: &Overlay, world: &World<'_>, today: &Today<'_>) -> BTreeSet<Objection> {
    match world.translator.try_root(root, overlay, world.objects) {
        Some(plan) => compare(root, &plan, overlay, world, today),
        None => BTreeSet::new(),
    }
}

/// Returns objections to a plan of a root.
pub(super) fn compare(
    root: &ObjectKey,
    plan: &RoutePlan,
    overlay: &Overlay,
    world: &World<'_>,
    today: &Today<'_>,
) -> BTreeSet<Objection> {
    let mut found = BTreeSet::new();
    let Some(proxy) = self::proxy(root, today) else {
        if plan.routes.iter().any(|rendered| is_open(&rendered.route)) {
            found.insert(Objection::whole(root, About::Existence, "it was deleted, and would be served again"));
        }
        return found;
    };
    if let Some(why) = host(root, proxy, plan, world, today) {
        found.insert(Objection::whole(root, About::Reach, why));
        return found;
    }
    let included = Included::of(root, proxy, overlay, today);
    for route in plan.routes.iter().map(|rendered| &rendered.route).filter(|route| is_open(route)) {
        let section = || Node::section(route.key.clone(), route.section.clone());
        match included.prefixes(&route.key) {
            _ if !today.exists(&route.key) => {
                let why = "it was deleted, and would be served again";
                found.insert(Objection::whole(&route.key, About::Existence, why));
            }
            None => {
                let why = format!("{root} does not include it today");
                found.insert(Objection::whole(&route.key, About::Reach, why));
            }
            Some(prefixes) if !prefixes.iter().any(|prefix| is_below(&route.matches.path, prefix)) => {
                let why = format!("no include of today leads to {:?}", route.matches.path);
                found.insert(Objection::new(section(), About::Reach, why));
            }
            Some(_) => {}
        }
        for target in backends::of(route) {
            let is_foreign = target.key().namespace != route.key.namespace;
            let why = match is_foreign {
                true => Some(format!("Service {} is in another namespace", target.key().namespaced_name())),
                false => backends::wrong(&route.key, target, overlay, today),
            };
            found.extend(why.map(|why| Objection::new(section(), About::Backend, why)));
        }
    }
    if let Some(desired) = world.translator.root(root) {
        found.extend(guards::check(proxy, desired, plan, overlay, today));
    }
    found
}

/// Returns the current version of a proxy.
fn proxy<'a>(key: &ObjectKey, today: &Today<'a>) -> Option<&'a HttpProxy> {
    match &today.object(key)?.body {
        Body::HttpProxy(proxy) => Some(proxy),
        _ => None,
    }
}

/// Checks whether the action of a route is anything other than a direct response.
fn is_open(route: &Route) -> bool {
    !matches!(route.action, Action::Respond(_))
}

/// Returns the objection to the places of a root.
fn host(root: &ObjectKey, proxy: &HttpProxy, plan: &RoutePlan, world: &World<'_>, today: &Today<'_>) -> Option<String> {
    if !plan.routes.iter().any(|rendered| is_open(&rendered.route)) {
        return None;
    }
    let Some(host) = &proxy.virtual_host else { return Some("it has no host today".into()) };
    let tls = host.written.as_ref().and_then(|written| written.tls.as_ref());
    for (gateway, table, place_host) in &plan.places {
        if gateway != world.gateway || place_host.domain() != &*host.fqdn {
            return Some(format!("it would serve host {:?}, which it does not claim today", place_host.domain()));
        }
        if matches!(table, TableName::Listener(_)) && tls.is_none() {
            return Some("it would be served with TLS, which it does not request today".into());
        }
    }
    let others = world.translator.roots_of_host(&host.fqdn).filter(|other| *other != root);
    let mut rivals = others.filter(|other| includes::is_served(other, today, world));
    rivals.next().map(|other| format!("{other} claims the same host today"))
}

/// Checks whether a route accepts only paths below a prefix, as far as this can be determined.
fn is_below(path: &PathMatch, prefix: &str) -> bool {
    let literal;
    let text: &str = match path {
        PathMatch::Exact(text) | PathMatch::Prefix(text) | PathMatch::Text(text) => text,
        PathMatch::Regex(pattern) => {
            literal = re2::literal_prefix(pattern);
            &literal
        }
    };
    let prefix = prefix.trim_end_matches('/');
    text.starts_with(prefix) || (matches!(path, PathMatch::Regex(_)) && prefix.starts_with(text))
}
