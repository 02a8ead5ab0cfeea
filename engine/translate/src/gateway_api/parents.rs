//! Resolution of parentRefs: to a Gateway, or to a ListenerSet of a Gateway.

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::references::ParentRef;
use holdfast_api::apis::kinds;
use holdfast_api::fault::Class;
use holdfast_api::settings::Settings;
use holdfast_graph::{ObjectKey, Role};

use crate::listeners::owner::{self, Owner};
use crate::outcome::gateway::GatewayPlan;
use crate::reader::Reader;

/// A parent of routes: the Gateway, and the ListenerSet if the parentRef names one.
pub(crate) type Place = (ObjectKey, Option<ObjectKey>);

/// Why a reference does not lead to a Gateway that Holdfast serves.
pub(crate) enum Missing {
    /// The parent belongs to another controller.
    Anothers,
    /// The reference has a fault: class, reason and message; and the object at fault, if it is not the route.
    Faulty(Class, &'static str, String, Option<ObjectKey>),
}

/// Resolves a reference of a route to one of the served Gateways.
pub(crate) fn of(
    key: &ObjectKey,
    reference: &ParentRef,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Result<Place, Missing> {
    let kind = reference.kind.as_deref().unwrap_or(kinds::GATEWAY);
    let is_known = matches!(kind, kinds::GATEWAY | kinds::LISTENER_SET);
    if reference.group.as_deref().unwrap_or(GROUP) != GROUP || !is_known {
        return Err(Missing::Faulty(
            Class::Ignored,
            "NotServed",
            format!("parentRefs of kind {kind} are not supported"),
            None,
        ));
    }
    let namespace = reference.namespace.as_deref().unwrap_or(&key.namespace);
    let named = ObjectKey::new(GROUP, kind, namespace, reference.name.clone());
    reader.edge(key, "", &named, Role::Attaches);
    let (gateway, set) = match kind {
        kinds::LISTENER_SET => (of_set(&named, reader)?, Some(named)),
        _ => (named, None),
    };
    if reader.outcome::<GatewayPlan>(&gateway).is_some() {
        return Ok((gateway, set));
    }
    let why = match owner::owner_of(&gateway, settings, reader) {
        Some(Owner::Another | Owner::Us) => return Err(Missing::Anothers),
        Some(Owner::NoClass) => "references a GatewayClass that does not exist",
        None => "does not exist",
    };
    let message = format!("Gateway {} {why}", gateway.namespaced_name());
    let cause = if reader.object(&gateway).is_some() { Some(gateway) } else { set };
    Err(missing(message, cause))
}

fn of_set(set: &ObjectKey, reader: &mut Reader<'_>) -> Result<ObjectKey, Missing> {
    let Some(object) = reader.object(set) else {
        return Err(missing(format!("ListenerSet {} does not exist", set.namespaced_name()), None));
    };
    let gateway = match &object.body {
        Body::ListenerSet(written) => written.gateway(set),
        _ => None,
    };
    gateway.ok_or_else(|| {
        let message = format!("the parentRef of ListenerSet {} does not reference a Gateway", set.namespaced_name());
        missing(message, Some(set.clone()))
    })
}

fn missing(message: String, cause: Option<ObjectKey>) -> Missing {
    Missing::Faulty(Class::Referential, "NoMatchingParent", message, cause)
}
