//! Routes that are closed at a Gateway because its client certificate for backends is not available. Computed on request.

use std::sync::Arc;

use holdfast_envoy::features::upstream::ClientIdentity;
use holdfast_envoy::model::{Action, Route};
use holdfast_graph::ObjectKey;

use crate::Translator;
use crate::assembly::fleet::clients::lacks_services;
use crate::assembly::fleet::{Fleet, FleetId};
use crate::outcome::route::RoutePlan;

/// A part of a route object with backends or services that a fleet does not connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreachablePart<'a> {
    /// The route object; an HTTPProxy that is included for its own routes.
    pub route: &'a ObjectKey,
    /// The section of the object; empty for all of it.
    pub section: Arc<str>,
    /// What is not reached.
    pub what: Unreached,
}

/// What of a part is not reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unreached {
    /// All of it.
    All,
    /// Some of the backends.
    Share,
    /// Backends that only receive copies of requests.
    Copies,
}

/// Returns the parts of route objects that a fleet closes, in whole or for a share of the requests, because the client
/// certificate of its Gateway is not available.
pub fn unreachable_parts<'a>(translator: &'a Translator, fleet: &FleetId) -> Vec<UnreachablePart<'a>> {
    let served = translator.assembly.fleets.get(fleet);
    let Some(served) = served.filter(|served| *served.plan().identity() == ClientIdentity::Unavailable) else {
        return Vec::new();
    };
    let of = |key| {
        let plan = translator.served_route(fleet, key).filter(|plan| plan.gateways().contains(&fleet.gateway));
        plan.map(|plan| parts(key, plan, served)).unwrap_or_default()
    };
    let mut all: Vec<UnreachablePart<'_>> = translator.routes.each().map(|(key, _)| key).flat_map(of).collect();
    all.sort_by(|one, other| (one.route, &one.section).cmp(&(other.route, &other.section)));
    all.dedup();
    all
}

fn parts<'a>(key: &'a ObjectKey, plan: &'a RoutePlan, served: &Fleet) -> Vec<UnreachablePart<'a>> {
    let identity = served.plan().identity();
    let part = |route: &'a ObjectKey, section: Arc<str>, what| UnreachablePart { route, section, what };
    if lacks_services(served, plan) {
        return vec![part(key, "".into(), Unreached::All)];
    }
    let of_routes = plan.routes.iter().filter_map(|rendered| {
        let route = &rendered.route;
        let (closed, open) = backends(route, identity);
        let what = match (identity.closes_guards(&route.guards), closed, open) {
            (true, ..) | (_, 1.., 0) if route.share.is_none() => Unreached::All,
            (true, ..) | (_, 1.., _) => Unreached::Share,
            _ if has_closed_mirror(route, identity) => Unreached::Copies,
            _ => return None,
        };
        Some(part(&route.key, route.section.clone(), what))
    });
    let of_stream = plan.stream.iter().filter_map(|stream| {
        let closed = stream.backends().filter(|backend| identity.closes_backend(backend)).count();
        let what = if stream.backends().count() > closed { Unreached::Share } else { Unreached::All };
        (closed > 0).then(|| part(key, stream.node.section.clone(), what))
    });
    of_routes.chain(of_stream).collect()
}

fn has_closed_mirror(route: &Route, identity: &ClientIdentity) -> bool {
    let Action::Forward(forward) = &route.action else { return false };
    forward.mirrors.iter().any(|mirror| identity.closes_backend(&mirror.backend))
}

/// Returns how many backends with a weight are not reached, and how many are.
fn backends(route: &Route, identity: &ClientIdentity) -> (usize, usize) {
    let Action::Forward(forward) = &route.action else { return (0, 0) };
    let weighted = forward.backends.iter().filter(|weighted| weighted.weight > 0);
    let known = weighted.filter_map(|weighted| weighted.backend.as_ref());
    let (closed, open): (Vec<_>, Vec<_>) = known.partition(|backend| identity.closes_backend(backend));
    (closed.len(), open.len())
}
