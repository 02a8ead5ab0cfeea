//! Backends of routes: Services that exist in the current objects, with the port, and only if a current grant allows
//! the reference.

use std::collections::BTreeSet;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::section::ObjectSection;
use holdfast_envoy::features::remote::Remote;
use holdfast_envoy::model::{Action, EndpointSource, Route};
use holdfast_graph::{Node, ObjectKey};
use holdfast_translate::overlay::Overlay;
use holdfast_translate::route::RoutePlan;

use super::today::Today;
use super::{About, Objection};

/// Returns objections to backends of the route's units that must not receive requests.
pub(super) fn check(key: &ObjectKey, plan: &RoutePlan, overlay: &Overlay, today: &Today<'_>) -> BTreeSet<Objection> {
    let mut found = BTreeSet::new();
    if let Some(stream) = &plan.stream {
        let why = stream.backends().filter_map(|backend| wrong(key, &backend.place, overlay, today));
        found.extend(why.map(|why| Objection::new(stream.node.clone(), About::Backend, why)));
    }
    for rendered in &plan.routes {
        let route = &rendered.route;
        for target in of(route) {
            if let Some(why) = wrong(key, target, overlay, today) {
                let section = ObjectSection::Rule(route.precedence.rule).to_string();
                found.insert(Objection::new(Node::section(key.clone(), section), About::Backend, why));
            }
        }
    }
    found
}

/// Returns the backends that a route forwards requests or mirrored requests to, and the servers of its own filters.
pub(super) fn of(route: &Route) -> Vec<&EndpointSource> {
    let servers = route.guards.rule_auth.iter().filter_map(|auth| match &auth.server.remote {
        Remote::Backend(backend) => Some(backend),
        Remote::Group(_) | Remote::Host(_) => None,
    });
    let forward = if let Action::Forward(forward) = &route.action { Some(&**forward) } else { None };
    let backends = forward.into_iter().flat_map(|forward| {
        let backends = forward.backends.iter().filter_map(|weighted| weighted.backend.as_ref());
        backends.chain(forward.mirrors.iter().map(|mirror| &mirror.backend))
    });
    backends.chain(servers).map(|backend| &backend.place).collect()
}

/// Returns why a route must not forward requests to a backend now; `None` if it may.
pub(super) fn wrong(
    route: &ObjectKey,
    target: &EndpointSource,
    overlay: &Overlay,
    today: &Today<'_>,
) -> Option<String> {
    let target = match target {
        EndpointSource::Service(target) => target,
        EndpointSource::Hosts(_) | EndpointSource::Anywhere(_) | EndpointSource::Function(_) => {
            return wrong_object(route, target, overlay, today);
        }
    };
    let stand_in = || match &overlay.objects.get(&target.key).filter(|_| today.is_unusable(&target.key))?.body {
        Body::Service(service) => Some(service),
        _ => None,
    };
    let Some(service) = today.service(&target.key).or_else(stand_in) else {
        return Some(format!("Service {} is not there", target.key.namespaced_name()));
    };
    if service.external_name {
        return Some(format!("Service {} is a name outside the cluster", target.key.namespaced_name()));
    }
    if !service.ports.iter().any(|port| port.port == target.port && &*port.protocol == target.transport.name()) {
        return Some(format!("there is no port {target}"));
    }
    let allowed = today.allows(GROUP, &route.kind, &route.namespace, &target.key);
    (!allowed).then(|| format!("no ReferenceGrant of today allows Service {}", target.key.namespaced_name()))
}

/// Returns why a route must not forward requests to the backend that an object defines; `None` if it may.
///
/// The last valid version of a Backend that cannot be read may be served, like that of a Service. A Secret is never read
/// from an earlier version.
fn wrong_object(route: &ObjectKey, target: &EndpointSource, overlay: &Overlay, today: &Today<'_>) -> Option<String> {
    let owner = target.key();
    let has_stand_in = |key: &ObjectKey| {
        let stand_in = overlay.objects.get(key).filter(|_| today.is_unusable(key));
        stand_in.is_some_and(|object| matches!(object.body, Body::Backend(_)))
    };
    let is_there = |key: &ObjectKey| today.object(key).is_some() || has_stand_in(key);
    if let Some(gone) = target.others().iter().chain([owner]).find(|key| !is_there(key)) {
        return Some(format!("{} {} is not there", gone.kind, gone.namespaced_name()));
    }
    let allowed = today.allows(GROUP, &route.kind, &route.namespace, owner);
    (!allowed).then(|| format!("no ReferenceGrant of today allows {} {}", owner.kind, owner.namespaced_name()))
}
