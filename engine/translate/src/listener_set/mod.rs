//! ListenerSets: the claim of each set on its own. `join.rs` adds its listeners to those of the Gateway.
//!
//! Each set is a unit: changes of other objects do not translate it again, and its faults close no other object.

mod allowed;
pub mod join;
mod shared_host;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::settings::Settings;
use holdfast_graph::{ObjectKey, Role};

use crate::incremental::guard;
use crate::listeners;
use crate::listeners::owner::{Owner, owner_of};
use crate::outcome::listener_set::SetClaim;
use crate::policy::holding;
use crate::reader::Reader;

/// Reads the claim of a ListenerSet; `None` where it is deleted.
pub(super) fn claim(key: &ObjectKey, settings: &Settings, reader: &mut Reader<'_>) -> Option<SetClaim> {
    let object = reader.object(key)?;
    let Body::ListenerSet(set) = &object.body else { return None };
    let mut claim = SetClaim { age: object.age(), gateway: None, listeners: Vec::new(), faults: Vec::new() };
    let fault = |class, reason, message: String| Fault::new(key, class, "spec.parentRef", reason, message);
    let Some(gateway) = set.gateway(key) else {
        let group = set.parent.group.as_deref().unwrap_or(GROUP);
        let kind = set.parent.kind.as_deref().unwrap_or(kinds::GATEWAY);
        claim.faults.push(fault(
            Class::Ignored,
            "NotServed",
            format!("parentRefs of kind {group}/{kind} are not supported"),
        ));
        return Some(claim);
    };
    reader.edge(key, "", &gateway, Role::Attaches);
    let why = match owner_of(&gateway, settings, reader) {
        Some(Owner::Us) => None,
        Some(Owner::Another) => return Some(claim),
        Some(Owner::NoClass) => Some("references a GatewayClass that does not exist"),
        None => Some("does not exist"),
    };
    if let Some(why) = why {
        let message = format!("Gateway {} {why}", gateway.namespaced_name());
        claim.faults.push(fault(Class::Referential, "NoMatchingParent", message));
        return Some(claim);
    }
    for (index, entry) in set.listeners.iter().enumerate() {
        let field = at("spec.listeners", index);
        let plan = listeners::plan(key, &field, entry, settings, reader, &mut claim.faults);
        claim.listeners.push(plan);
    }
    if set.listeners.is_empty() {
        let message = "a ListenerSet must have at least one listener";
        claim.faults.push(Fault::new(key, Class::Invalid, "spec.listeners", "NoListeners", message));
    }
    for (policy, _, section) in holding::of_set(key, &object.metadata.labels, reader) {
        holding::record(&policy, &section, key, &claim.listeners, reader);
    }
    claim.gateway = Some(gateway);
    claim.faults.sort_unstable();
    Some(claim)
}

/// Returns the claim of a set after failed translation: the previous claim and a fault.
pub(super) fn failed(object: &holdfast_api::object::Object, before: Option<&SetClaim>) -> SetClaim {
    let nothing = || SetClaim { age: object.age(), gateway: None, listeners: Vec::new(), faults: Vec::new() };
    let mut claim = before.cloned().unwrap_or_else(nothing);
    claim.faults.push(guard::fault(&object.key));
    claim.faults.sort_unstable();
    claim.faults.dedup();
    claim
}
