//! Default Gateways of a route: Gateways with `defaultScope`, which a route with `useDefaultGateways` does not name.
//!
//! The route is attached to each as if it named it. Only the faults differ: the owner of a Gateway makes it a default, so
//! that a default Gateway on which a route has no place must not make the route faulty where it is served.
//!
//! <https://gateway-api.sigs.k8s.io/geps/gep-3793>

use std::sync::Arc;

use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::references::ParentRef;
use holdfast_api::apis::gateway::route::PARENTS_MAX;
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::Object;
use holdfast_api::section;
use holdfast_graph::ObjectKey;

use super::claims::RouteAtParents;
use super::parents::{self, Missing};
use crate::outcome::claims::{Claims, Parent, ParentOrigin, USE_DEFAULT_GATEWAYS};
use crate::outcome::route::RoutePlan;
use crate::reader::Reader;

/// Adds the default Gateways to the parents of a route, if it uses them.
pub(super) fn add(route: &RouteAtParents<'_>, written: &[ParentRef], claims: &mut Claims, reader: &mut Reader<'_>) {
    let key = route.key;
    let mut joined = Vec::new();
    for gateway in reader.default_gateways() {
        let reference = reference(gateway);
        // A status has one entry for each reference.
        if written.iter().any(|parent| is_whole(parent, &reference, &key.namespace)) {
            continue;
        }
        match parents::of(key, &reference, route.settings, reader) {
            Ok(place) => joined.extend(route.join(&reference, ParentOrigin::DefaultGateway, place, reader)),
            Err(missing) => claims.anothers |= matches!(missing, Missing::Anothers),
        }
    }
    // Default Gateways that do not allow the route must not displace those that do.
    joined.sort_by_key(|(parent, _)| parent.attachments.is_empty());
    let left_out = joined.split_off(PARENTS_MAX.saturating_sub(written.len()).min(joined.len()));
    for (parent, fault) in joined {
        claims.faults.extend(fault);
        claims.parents.push(parent);
    }
    if let Some((first, _)) = left_out.first().filter(|(parent, _)| !parent.attachments.is_empty()) {
        claims.faults.push(too_many(key, &first.gateway));
    }
}

/// Returns the fault of a route with more default Gateways than parents are possible.
fn too_many(key: &ObjectKey, first: &ObjectKey) -> Fault {
    let message = format!(
        "a route has at most {PARENTS_MAX} parents: it is not attached to default Gateway {} and those after it in the \
         order of names; name Gateways in parentRefs instead",
        first.namespaced_name()
    );
    Fault::new(key, Class::Ignored, section::field(USE_DEFAULT_GATEWAYS), "NotServed", message)
}

/// Makes faults at default Gateways no errors of a route that is served at another parent: the route is whole without
/// these Gateways.
pub(super) fn settle(plan: &mut RoutePlan) {
    if !plan.faults.iter().any(is_about) {
        return;
    }
    let is_good = |parent: &Parent| {
        let field = parent.field();
        !parent.attachments.is_empty() && plan.faults.iter().all(|fault| fault.field != field)
    };
    if plan.parents.iter().any(is_good) {
        plan.faults.iter_mut().filter(|fault| is_about(fault)).for_each(|fault| fault.class = Class::Ignored);
    }
}

/// Returns whether a route uses default Gateways.
pub(super) fn are_used(object: &Object) -> bool {
    object.body.route().is_some_and(|route| route.uses_default_gateways())
}

/// Returns the fault of a route without any parent.
pub(super) fn no_parents(object: &Object) -> Fault {
    let (section, message) = match are_used(object) {
        true => (
            USE_DEFAULT_GATEWAYS,
            "parentRefs is empty, and no Gateway with defaultScope All is served: the route is attached to no Gateway and is not \
             served",
        ),
        false => ("parentRefs", "parentRefs is empty: the route is attached to no Gateway and is not served"),
    };
    Fault::new(&object.key, Class::Ignored, section::field(section), "NoParents", message)
}

/// Returns whether a fault is about the default Gateways of a route.
pub(super) fn is_about(fault: &Fault) -> bool {
    section::of_field(&fault.field).starts_with(USE_DEFAULT_GATEWAYS)
}

fn reference(gateway: &ObjectKey) -> ParentRef {
    ParentRef {
        group: Some(GROUP.into()),
        kind: Some(kinds::GATEWAY.into()),
        namespace: Some(gateway.namespace.clone()),
        name: gateway.name.clone(),
        section_name: None,
        port: None,
    }
}

/// Returns whether a written reference names all listeners of a default Gateway.
fn is_whole(written: &ParentRef, gateway: &ParentRef, namespace: &Arc<str>) -> bool {
    written.group.as_deref().is_none_or(|group| group == GROUP)
        && written.kind.as_deref().is_none_or(|kind| kind == kinds::GATEWAY)
        && gateway.namespace.as_ref() == Some(written.namespace.as_ref().unwrap_or(namespace))
        && written.name == gateway.name
        && written.section_name.is_none()
        && written.port.is_none()
}
