//! Joining of ListenerSets: how their listeners are added to those of their Gateway.
//!
//! The Gateway's own listeners come first, then sets by age. A listener of a set that claims what an earlier listener
//! has takes no part: ports and hosts stay with their current owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::apis::gateway::gateway::Gateway;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::settings::Settings;
use holdfast_api::status::Condition;
use holdfast_graph::{ObjectKey, Role};

pub(crate) use super::shared_host::beside;
use super::{allowed, claim};
use crate::listeners::namespaces;
use crate::outcome::gateway::{GatewayPlan, SetPlan};
use crate::outcome::listener::{ListenerPlan, ListenerState};
use crate::outcome::listener_set::SetClaim;
use crate::reader::Reader;

/// Listeners of all ListenerSets of one Gateway; further listeners take no part.
pub(crate) const SET_LISTENERS_MAX: usize = 2048;

/// A ListenerSet that requests to join a Gateway.
pub(super) struct JoinRequest {
    pub(super) key: ObjectKey,
    pub(super) claim: Arc<SetClaim>,
    pub(super) allowed: bool,
}

/// Returns the ListenerSets that request to join a Gateway, in the order of precedence.
pub(super) fn join_requests(
    key: &ObjectKey,
    gateway: &Gateway,
    settings: &Settings,
    reader: &mut Reader<'_>,
    fault: &mut impl FnMut(String, Class, &'static str, String),
) -> Vec<JoinRequest> {
    let allowed = allowed::read(gateway, fault);
    let mut sets = Vec::new();
    for set in reader.sets(key) {
        // Under an overlay, Secrets may be read in another version.
        let found = match reader.over {
            None => reader.outcome::<SetClaim>(&set).cloned(),
            Some(_) => claim(&set, settings, reader).map(Arc::new),
        };
        let Some(claim) = found.filter(|claim| claim.gateway.as_ref() == Some(key)) else { continue };
        let allowed = namespaces::is_among(&allowed, &key.namespace, &set.namespace, settings, reader);
        sets.push(JoinRequest { key: set, claim, allowed });
    }
    sets.sort_by(|one, other| one.claim.age.cmp(&other.claim.age));
    sets
}

/// Adds the listeners of ListenerSets to those of the Gateway, and returns the outcome of each set.
pub(crate) fn join(
    key: &ObjectKey,
    gateway: &Gateway,
    listeners: &mut Vec<ListenerPlan>,
    settings: &Settings,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) -> BTreeMap<ObjectKey, SetPlan> {
    let mut fault = |field: String, class: Class, reason: &'static str, message: String| {
        faults.push(Fault::new(key, class, field, reason, message));
    };
    let sets = join_requests(key, gateway, settings, reader, &mut fault);
    let mut left = SET_LISTENERS_MAX;
    let mut plans = BTreeMap::new();
    for JoinRequest { key: set, claim, allowed } in sets {
        reader.edge(key, "", &set, Role::Mentions);
        if !allowed {
            let message = format!(
                "Gateway {} does not allow ListenerSets of namespace {}: see its allowedListeners",
                key.namespaced_name(),
                set.namespace
            );
            faults.push(Fault::new(&set, Class::Referential, "spec.parentRef", "NotAllowed", &message));
            let accepted = Condition::new("Accepted", false, "NotAllowed", message);
            plans.insert(set, SetPlan { accepted, joins: false });
            continue;
        }
        for (index, listener) in claim.listeners.iter().enumerate() {
            let mut listener = listener.clone();
            if index >= left {
                let message = format!("ListenerSets add at most {SET_LISTENERS_MAX} listeners to a Gateway");
                listener.reject(ListenerState::Out, "TooManyListeners", &message);
                faults.push(Fault::new(&set, Class::Invalid, &listener.field, "TooManyListeners", message));
            }
            listeners.push(listener);
        }
        left = left.saturating_sub(claim.listeners.len());
        // The final condition is known after the resolution of conflicts among all listeners.
        let accepted = Condition::unknown("Accepted", "Pending", "");
        plans.insert(set, SetPlan { accepted, joins: true });
    }
    plans
}

/// Sets the conditions of the sets, after the resolution of conflicts among all listeners.
pub(crate) fn settle(plan: &mut GatewayPlan, parent_is_served: bool) {
    let mut names: BTreeMap<&ObjectKey, [Vec<&str>; 2]> = BTreeMap::new();
    for listener in &plan.listeners {
        let Some(set) = &listener.set else { continue };
        let [good, bad] = names.entry(&set.key).or_default();
        if listener.state == ListenerState::Serving { good.push(&set.section) } else { bad.push(&set.section) }
    }
    for (key, set) in plan.sets.iter_mut().filter(|(_, set)| set.joins) {
        let [good, bad] = names.remove(key).unwrap_or_default();
        if !parent_is_served {
            let message = format!("Gateway {} is not accepted, so that its listeners are not served", plan.name);
            plan.faults.push(Fault::new(key, Class::Referential, "spec.parentRef", "ParentNotAccepted", message));
        }
        set.accepted = match (good.is_empty(), bad.is_empty()) {
            _ if !parent_is_served => {
                let message = format!("Gateway {} is not accepted, so that its listeners are not served", plan.name);
                Condition::new("Accepted", false, "ParentNotAccepted", message)
            }
            (false, true) => Condition::new("Accepted", true, "Accepted", "the listeners are served"),
            (true, true) => Condition::new("Accepted", false, "ListenersNotValid", "there is no listener"),
            (true, false) => {
                let message = format!("none of these listeners is served: {}", bad.join(", "));
                Condition::new("Accepted", false, "ListenersNotValid", message)
            }
            (false, false) => {
                let (good, bad) = (good.join(", "), bad.join(", "));
                let message = format!("served listeners: {good}; listeners that are not served: {bad}");
                Condition::new("Accepted", true, "ListenersNotValid", message)
            }
        };
    }
    plan.faults.sort_unstable();
}
