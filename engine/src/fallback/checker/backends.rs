//! Where requests would go: to Services that are there today, with that port, and only where today's grants allow it.

use std::collections::BTreeSet;

use holdfast_graph::{Node, ObjectKey};

use super::today::Today;
use super::{About, Objection};
use crate::apis::Body;
use crate::apis::gateway::GROUP;
use crate::model::{Action, ServicePort};
use crate::translate::overlay::Overlay;
use crate::translate::route::RoutePlan;

/// Back ends of a route's units that must not get requests.
pub(super) fn check(key: &ObjectKey, plan: &RoutePlan, overlay: &Overlay, today: &Today<'_>) -> BTreeSet<Objection> {
    let mut found = BTreeSet::new();
    for rendered in &plan.routes {
        let route = &rendered.route;
        let Action::Forward(forward) = &route.action else { continue };
        let backends = forward.backends.iter().filter_map(|weighted| weighted.backend.as_ref());
        let copies = forward.mirrors.iter().map(|mirror| &mirror.backend);
        for backend in backends.chain(copies) {
            if let Some(why) = wrong(key, &backend.service, overlay, today) {
                let section = format!("rules[{}]", route.precedence.rule);
                found.insert(Objection::new(Node::section(key.clone(), section), About::BackEnd, why));
            }
        }
    }
    found
}

fn wrong(route: &ObjectKey, target: &ServicePort, overlay: &Overlay, today: &Today<'_>) -> Option<String> {
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
    if !service.ports.iter().any(|port| port.port == target.port && &*port.protocol == "TCP") {
        return Some(format!("there is no port {target}"));
    }
    let allowed = today.allows(GROUP, &route.kind, &route.namespace, &target.key);
    (!allowed).then(|| format!("no ReferenceGrant of today allows Service {}", target.key.namespaced_name()))
}
