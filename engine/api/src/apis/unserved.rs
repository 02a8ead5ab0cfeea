//! Kinds that Holdfast does not read, of groups with kinds that it reads: an object of them was written for a gateway and
//! has no effect.

use holdfast_graph::ObjectKey;

use super::{contour, gateway, kgateway};
use crate::fault::{Class, Fault};

/// The reason of the faults.
const NOT_SERVED: &str = "NotServed";

/// A kind that is not read.
struct UnservedKind {
    group: &'static str,
    kind: &'static str,
    /// What to use instead; empty if there is no counterpart.
    instead: &'static str,
}

/// The known kinds.
const UNSERVED: [UnservedKind; 10] = [
    unserved(gateway::GROUP, "BackendLBPolicy", ""),
    unserved(
        contour::GROUP,
        "ContourConfiguration",
        "flags of Holdfast, which holdfast migrate contour names for each setting",
    ),
    unserved(
        contour::GROUP,
        "ContourDeployment",
        "a ConfigMap with the parameters of the Envoys, named by parametersRef of the GatewayClass",
    ),
    unserved(kgateway::GROUP, "AgentgatewayBackend", ""),
    unserved(kgateway::GROUP, "AgentgatewayParameters", ""),
    unserved(kgateway::GROUP, "AgentgatewayPolicy", ""),
    unserved(
        kgateway::GROUP,
        "GatewayParameters",
        "a ConfigMap with the parameters of the Envoys, named by parametersRef of the Gateway or GatewayClass",
    ),
    unserved(
        kgateway::GROUP,
        "HTTPListenerPolicy",
        "a ListenerPolicy with the same targetRefs, and with the settings in spec.default.httpSettings",
    ),
    unserved(kgateway::GROUP, "RoutePolicy", "a TrafficPolicy, its later name"),
    unserved(kgateway::GROUP, "Upstream", "a Backend, its later name"),
];

const fn unserved(group: &'static str, kind: &'static str, instead: &'static str) -> UnservedKind {
    UnservedKind { group, kind, instead }
}

fn find(group: &str, kind: &str) -> Option<&'static UnservedKind> {
    UNSERVED.iter().find(|unserved| unserved.group == group && unserved.kind == kind)
}

/// Returns whether a kind is known, and not read.
pub(super) fn is_known(group: &str, kind: &str) -> bool {
    find(group, kind).is_some()
}

/// Returns whether objects of a group, of all kinds, are meant for a gateway.
pub(super) fn is_of_gateway(group: &str) -> bool {
    [contour::GROUP, kgateway::GROUP].contains(&group)
}

/// Returns what to use instead of a kind that is not read, if there is a counterpart.
pub fn instead(group: &str, kind: &str) -> Option<&'static str> {
    find(group, kind).map(|unserved| unserved.instead).filter(|instead| !instead.is_empty())
}

/// Returns the fault of an object of a kind that is not read.
pub(super) fn fault(object: &ObjectKey) -> Fault {
    let mut message = format!("Holdfast does not read the kind {}: the object has no effect", object.kind);
    if let Some(instead) = instead(&object.group, &object.kind) {
        message.push_str("; use ");
        message.push_str(instead);
    }
    Fault::new(object, Class::Ignored, "kind", NOT_SERVED, message)
}
