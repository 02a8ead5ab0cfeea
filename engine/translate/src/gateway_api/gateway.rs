//! Gateways: their listeners, the hosts of each listener, and the reasons that keep a listener from serving.

use std::net::{IpAddr, Ipv4Addr};

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::gateway::Gateway;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_api::status::Condition;
use holdfast_graph::{ObjectKey, Role};

use super::{client, infrastructure};
use crate::annotations;
use crate::httpproxy::listeners as of_proxies;
use crate::incremental::guard;
use crate::listener_set::join;
use crate::listeners::addresses::{self, RequestedAddresses};
use crate::listeners::owner::{Owner, owner};
use crate::listeners::{self, conflicts, frontend};
use crate::outcome::gateway::{GatewayPlan, class_key};
use crate::outcome::listener::{ListenerPlan, ListenerState};
use crate::reader::Reader;

/// Result of translating a Gateway.
pub(crate) enum Outcome {
    /// A Gateway of this controller that is served.
    Served(Box<GatewayPlan>),
    /// A Gateway that is not served, with its fault: a missing class, a reserved name, or failed translation.
    NotServed(Fault),
    /// A deleted Gateway, or one of another controller.
    None,
}

/// Translates a Gateway.
pub(crate) fn plan(key: &ObjectKey, settings: &Settings, reader: &mut Reader<'_>) -> Outcome {
    if *key == of_proxies::key() {
        return of_proxies::plan(settings, reader).map_or(Outcome::None, |plan| Outcome::Served(Box::new(plan)));
    }
    let Some(object) = reader.object(key) else { return Outcome::None };
    let Body::Gateway(gateway) = &object.body else { return Outcome::None };
    match owner(gateway, settings, reader) {
        Owner::Us if is_reserved(key, settings) => {
            let message = "the name is reserved for the listeners of HTTPProxies; rename the Gateway";
            Outcome::NotServed(Fault::new(key, Class::Conflict, "metadata.name", "NameReserved", message))
        }
        Owner::Us => Outcome::Served(Box::new(serve(object, gateway, settings, reader))),
        Owner::Another => Outcome::None,
        Owner::NoClass => {
            let message =
                format!("GatewayClass {} does not exist, so that no controller serves the Gateway", gateway.class);
            Outcome::NotServed(Fault::new(key, Class::Referential, "spec.gatewayClassName", "ClassNotFound", message))
        }
    }
}

/// Returns whether the name is reserved for the separate listeners of HTTPProxies.
fn is_reserved(key: &ObjectKey, settings: &Settings) -> bool {
    let named = (&*key.namespace, &*key.name) == (of_proxies::NAMESPACE, of_proxies::NAME);
    named && settings.proxies.gateway.is_none()
}

/// Returns the outcome of a Gateway after failed translation: the previous plan stays in force. A Gateway without a
/// previous plan gets a fault.
pub(crate) fn failed(key: &ObjectKey, before: Option<&GatewayPlan>) -> Outcome {
    let fault = guard::fault(key);
    match before {
        Some(before) => {
            let mut plan = before.clone();
            plan.faults.push(fault);
            plan.faults.sort_unstable();
            plan.faults.dedup();
            Outcome::Served(Box::new(plan))
        }
        None => Outcome::NotServed(fault),
    }
}

fn serve(object: &Object, gateway: &Gateway, settings: &Settings, reader: &mut Reader<'_>) -> GatewayPlan {
    let key = &object.key;
    reader.edge(key, "", &class_key(&gateway.class), Role::Attaches);
    let mut faults = Vec::new();
    let requested = addresses::read(key, gateway, settings, &mut faults);
    let address = requested.bound;
    let mut listeners: Vec<ListenerPlan> = gateway
        .listeners
        .iter()
        .enumerate()
        .map(|(index, entry)| listeners::plan(key, &at("spec.listeners", index), entry, settings, reader, &mut faults))
        .collect();
    let sets = join::join(key, gateway, &mut listeners, settings, reader, &mut faults);
    frontend::validate(key, gateway, &mut listeners, reader, &mut faults);
    conflicts::give_way(&mut listeners);
    if let Some(address) = address.filter(|_| settings.listen_address.is_some()) {
        join::beside(object, address, &mut listeners, settings, reader, &mut faults);
    }
    conflicts::among(key, &mut listeners, &mut faults);
    if let Some(address) = address.filter(|_| settings.listen_address.is_some()) {
        conflicts::between(object, address, &mut listeners, settings, reader, &mut faults);
    }
    faults.extend(annotations::of_gateway_api(object));
    let (infrastructure, flawed) = infrastructure::read(object, gateway, settings, reader, &mut faults);
    let accepted = match flawed {
        // Running Envoys stay: a mistake in data plane parameters is not a request to stop serving.
        Some(message) if address.is_some() => Condition::new("Accepted", false, "InvalidParameters", message),
        _ => accepted(&requested, &listeners),
    };
    let is_served = address.is_some();
    let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    if !is_served {
        listeners.iter_mut().for_each(|listener| listener.state = ListenerState::Out);
    }
    let client = client::read(key, gateway, reader, &mut faults).map(Box::new);
    if gateway.listeners.is_empty() {
        faults.push(Fault::new(
            key,
            Class::Invalid,
            "spec.listeners",
            "NoListeners",
            "a Gateway must have at least one listener",
        ));
    }
    faults.sort_unstable();
    let name = key.namespaced_name().into();
    let specifies_allowed_sets = gateway.allowed_listeners.is_some();
    let proxies = Vec::new();
    let mut plan = GatewayPlan {
        name,
        address,
        balanced: requested.balanced,
        listeners,
        sets,
        specifies_allowed_sets,
        is_default: gateway.is_default,
        proxies,
        infrastructure,
        client,
        accepted,
        faults,
    };
    join::settle(&mut plan, is_served);
    if settings.proxies.gateway.as_ref() == Some(key) {
        of_proxies::join(&mut plan, settings, reader);
    }
    plan
}

fn accepted(requested: &RequestedAddresses, listeners: &[ListenerPlan]) -> Condition {
    if requested.bound.is_none() {
        return Condition::new("Accepted", false, "UnsupportedAddress", "none of spec.addresses can be bound");
    }
    if let (Some(why), Some(address)) = (&requested.unsupported, requested.balanced) {
        // A mistake in one entry is not a request to stop serving.
        let message = format!("{why}; the Gateway is served with the address {address}");
        return Condition::new("Accepted", false, "UnsupportedAddress", message);
    }
    // Listeners of ListenerSets do not affect the condition of the Gateway.
    let own = listeners.iter().filter(|listener| listener.set.is_none());
    let (good, bad): (Vec<_>, Vec<_>) = own.partition(|listener| listener.accepted.status == "True");
    let names = |listeners: Vec<&ListenerPlan>| listeners.iter().map(|l| &*l.name).collect::<Vec<_>>().join(", ");
    match (good.is_empty(), bad.is_empty()) {
        (false, true) => Condition::new("Accepted", true, "Accepted", "the Gateway is served"),
        (true, true) => Condition::new("Accepted", false, "ListenersNotValid", "there is no listener"),
        (true, false) => {
            let message = format!("none of these listeners is accepted: {}", names(bad));
            Condition::new("Accepted", false, "ListenersNotValid", message)
        }
        // Some listeners serve: the Gateway stays accepted, as the specification allows.
        (false, false) => {
            let message =
                format!("accepted listeners: {}; listeners that are not accepted: {}", names(good), names(bad));
            Condition::new("Accepted", true, "ListenersNotValid", message)
        }
    }
}
