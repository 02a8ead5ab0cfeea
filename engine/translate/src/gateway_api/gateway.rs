//! Gateways: their listeners, the hosts of each listener, and the reasons that keep a listener from serving.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::gateway::Gateway;
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_api::status::Condition;
use holdfast_graph::{ObjectKey, Role};

use super::infrastructure::{self, Infrastructure};
use super::listener::{ListenerPlan, ListenerState};
use super::{conflicts, listener};
use crate::httpproxy::listeners;
use crate::incremental::guard;
use crate::listener_set::join::{self, SetPlan};
use crate::reader::Reader;

/// The outcome of a Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayPlan {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// The address that its listeners bind.
    pub address: IpAddr,
    /// Its own listeners as written, then those that ListenerSets add, in the order of precedence.
    pub listeners: Vec<ListenerPlan>,
    /// The ListenerSets that request to join the Gateway.
    pub sets: BTreeMap<ObjectKey, SetPlan>,
    /// Whether the Gateway specifies allowed ListenerSets (`spec.allowedListeners`).
    pub specifies_allowed_sets: bool,
    /// TLS listeners of the HTTPProxies that are served at the Gateway, each for one host; routes do not use them.
    pub proxies: Vec<ListenerPlan>,
    /// The data plane settings.
    pub infrastructure: Infrastructure,
    /// The condition `Accepted`.
    pub accepted: Condition,
    /// The faults.
    pub faults: Vec<Fault>,
}

impl GatewayPlan {
    /// Returns the listeners that take part in serving a port: all except the rejected ones.
    pub(crate) fn on_port(&self, port: u16) -> impl Iterator<Item = &ListenerPlan> {
        self.listeners.iter().filter(move |listener| listener.port == port && listener.state != ListenerState::Out)
    }

    /// Returns the listeners that are written in the Gateway itself.
    pub fn own(&self) -> impl Iterator<Item = &ListenerPlan> + Clone {
        self.listeners.iter().filter(|listener| listener.set.is_none())
    }

    /// Returns the listeners that are written in this object: a ListenerSet, or the Gateway where unset.
    pub fn of<'a>(&'a self, set: Option<&'a ObjectKey>) -> impl Iterator<Item = &'a ListenerPlan> + Clone {
        self.listeners.iter().filter(move |listener| listener.set.as_ref().map(|of| &of.key) == set)
    }

    /// Returns its listeners and those of HTTPProxies.
    pub fn all(&self) -> impl Iterator<Item = &ListenerPlan> + Clone {
        self.listeners.iter().chain(&self.proxies)
    }

    /// Returns whether two plans are equal for routes. Listeners of HTTPProxies and data plane settings do not count.
    pub(crate) fn is_same_to_routes(&self, other: &Self) -> bool {
        let Self {
            name,
            address,
            listeners,
            sets,
            specifies_allowed_sets: _,
            proxies: _,
            infrastructure: _,
            accepted,
            faults,
        } = self;
        (name, address, listeners, sets, accepted, faults)
            == (&other.name, &other.address, &other.listeners, &other.sets, &other.accepted, &other.faults)
    }

    /// Returns the address and port that a port is bound to.
    pub fn socket(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address, port)
    }
}

/// Returns the key of a GatewayClass.
pub fn class_key(name: &str) -> ObjectKey {
    ObjectKey::new(GROUP, kinds::GATEWAY_CLASS, "", name)
}

/// The controller of a Gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This controller, by the class.
    Us,
    /// Another controller.
    Another,
    /// None: the class does not exist.
    NoClass,
}

/// Returns the controller of a Gateway.
pub(crate) fn owner(gateway: &Gateway, settings: &Settings, reader: &mut Reader<'_>) -> Owner {
    match reader.object(&class_key(&gateway.class)).map(|object| &object.body) {
        Some(Body::GatewayClass(class)) if class.controller_name == settings.controller_name => Owner::Us,
        Some(_) => Owner::Another,
        None => Owner::NoClass,
    }
}

/// Returns the controller of the Gateway with this key; `None` where no such Gateway exists.
pub(crate) fn owner_of(key: &ObjectKey, settings: &Settings, reader: &mut Reader<'_>) -> Option<Owner> {
    match &reader.object(key)?.body {
        Body::Gateway(written) => Some(owner(written, settings, reader)),
        _ => None,
    }
}

/// Result of translating a Gateway.
pub(crate) enum Outcome {
    /// A Gateway of this controller that is served.
    Served(GatewayPlan),
    /// A Gateway that is not served, with its fault: a missing class, a reserved name, or failed translation.
    NotServed(Fault),
    /// A deleted Gateway, or one of another controller.
    None,
}

/// Translates a Gateway.
pub(crate) fn plan(key: &ObjectKey, settings: &Settings, reader: &mut Reader<'_>) -> Outcome {
    if *key == listeners::key() {
        return listeners::plan(settings, reader).map_or(Outcome::None, Outcome::Served);
    }
    let Some(object) = reader.object(key) else { return Outcome::None };
    let Body::Gateway(gateway) = &object.body else { return Outcome::None };
    match owner(gateway, settings, reader) {
        Owner::Us if is_reserved(key, settings) => {
            let message = "the name is reserved for the listeners of HTTPProxies; rename the Gateway";
            Outcome::NotServed(Fault::new(key, Class::Conflict, "metadata.name", "NameReserved", message))
        }
        Owner::Us => Outcome::Served(serve(object, gateway, settings, reader)),
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
    let named = (&*key.namespace, &*key.name) == (listeners::NAMESPACE, listeners::NAME);
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
            Outcome::Served(plan)
        }
        None => Outcome::NotServed(fault),
    }
}

fn serve(object: &Object, gateway: &Gateway, settings: &Settings, reader: &mut Reader<'_>) -> GatewayPlan {
    let key = &object.key;
    reader.edge(key, "", &class_key(&gateway.class), Role::Attaches);
    let mut faults = Vec::new();
    let address = address(key, gateway, settings, &mut faults);
    let mut listeners: Vec<ListenerPlan> = gateway
        .listeners
        .iter()
        .enumerate()
        .map(|(index, entry)| listener::plan(key, &at("spec.listeners", index), entry, settings, reader, &mut faults))
        .collect();
    let sets = join::join(key, gateway, &mut listeners, settings, reader, &mut faults);
    listener::check_client_validation(key, gateway, &mut listeners, &mut faults);
    conflicts::give_way(&mut listeners);
    if let Some(address) = address.filter(|_| settings.listen_address.is_some()) {
        join::beside(object, address, &mut listeners, settings, reader, &mut faults);
    }
    conflicts::among(key, &mut listeners, &mut faults);
    if let Some(address) = address.filter(|_| settings.listen_address.is_some()) {
        conflicts::between(object, address, &mut listeners, settings, reader, &mut faults);
    }
    let (infrastructure, flawed) = infrastructure::read(object, gateway, settings, reader, &mut faults);
    let accepted = match flawed {
        // Running Envoys stay: a mistake in data plane parameters is not a request to stop serving.
        Some(message) if address.is_some() => Condition::new("Accepted", false, "InvalidParameters", message),
        _ => accepted(address.is_some(), &listeners),
    };
    let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    if &*accepted.reason == "UnsupportedAddress" {
        listeners.iter_mut().for_each(|listener| listener.state = ListenerState::Out);
    }
    if gateway.tls.as_ref().is_some_and(|tls| tls.backend.is_some()) {
        let message = "client certificates for backends are not supported by this version of Holdfast";
        faults.push(Fault::new(key, Class::Ignored, "spec.tls.backend", "NotServed", message));
    }
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
        listeners,
        sets,
        specifies_allowed_sets,
        proxies,
        infrastructure,
        accepted,
        faults,
    };
    let is_served = &*plan.accepted.reason != "UnsupportedAddress";
    join::settle(&mut plan, is_served);
    if settings.proxies.gateway.as_ref() == Some(key) {
        listeners::join(&mut plan, settings, reader);
    }
    plan
}

fn accepted(address_is_usable: bool, listeners: &[ListenerPlan]) -> Condition {
    if !address_is_usable {
        return Condition::new("Accepted", false, "UnsupportedAddress", "none of spec.addresses can be bound");
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

/// Returns the address that a Gateway's listeners bind; `None` where the Gateway requests only addresses that are
/// unavailable.
pub(crate) fn address(
    key: &ObjectKey,
    gateway: &Gateway,
    settings: &Settings,
    faults: &mut Vec<Fault>,
) -> Option<IpAddr> {
    let default = settings.listen_address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let mut usable = None;
    for (index, address) in gateway.addresses.iter().enumerate() {
        let field = format!("{}.value", at("spec.addresses", index));
        let is_ip = address.r#type.as_deref().is_none_or(|kind| kind == "IPAddress");
        let Some(value) = address.value.as_deref().filter(|value| !value.is_empty()) else { continue };
        let (class, message) = match value.parse::<IpAddr>() {
            _ if !is_ip => (
                Class::Invalid,
                format!("the address {value:?} is not of type IPAddress, and other types are not supported"),
            ),
            Err(_) => (Class::Invalid, format!("{value:?} is no IP address")),
            // In a cluster the address belongs to the Service; Envoy does not bind it.
            Ok(_) if settings.listen_address.is_none() => (
                Class::Invalid,
                format!("the address {value:?} cannot be requested: the cluster assigns the addresses"),
            ),
            Ok(_) if usable.is_some() => (
                Class::Ignored,
                format!("the address {value:?} is not used: a Gateway binds only the first usable address"),
            ),
            Ok(address) => {
                usable = Some(address);
                continue;
            }
        };
        faults.push(Fault::new(key, class, field, "UnsupportedAddress", message));
    }
    let is_requested =
        gateway.addresses.iter().any(|address| address.value.as_deref().is_some_and(|value| !value.is_empty()));
    usable.or((!is_requested).then_some(default))
}

/// Returns the ports that a Gateway's own listeners would bind, without reading any other object.
pub(crate) fn ports(object: &Object, settings: &Settings) -> Vec<u16> {
    let Body::Gateway(gateway) = &object.body else { return Vec::new() };
    let written = gateway.listeners.iter().filter_map(|entry| entry.written.as_ref());
    written.filter_map(|listener| listener::bound_port(listener.port, settings)).collect()
}
