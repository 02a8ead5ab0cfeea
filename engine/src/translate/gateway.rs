//! Gateways: which listeners there are, what they own, and what keeps one from serving.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use holdfast_graph::{ObjectKey, Role};

use super::listener::{ListenerPlan, Standing};
use super::reader::Reader;
use super::{conflicts, listener};
use crate::apis::Body;
use crate::apis::gateway::GROUP;
use crate::apis::gateway::gateway::Gateway;
use crate::fault::{Class, Fault, at};
use crate::object::Object;
use crate::settings::Settings;
use crate::status::Condition;

/// What became of a Gateway.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GatewayPlan {
    /// `namespace/name`.
    pub(crate) name: Arc<str>,
    /// Where its listeners bind.
    pub(crate) address: IpAddr,
    /// Its listeners, as written.
    pub(crate) listeners: Vec<ListenerPlan>,
    /// `Accepted`.
    pub(crate) accepted: Condition,
    /// What is wrong with it.
    pub(crate) faults: Vec<Fault>,
}

impl GatewayPlan {
    /// The listeners that take part in serving a port: all but those that were thrown out.
    pub(crate) fn on_port(&self, port: u16) -> impl Iterator<Item = &ListenerPlan> {
        self.listeners.iter().filter(move |listener| listener.port == port && listener.standing != Standing::Out)
    }

    /// Where a port is bound.
    pub(crate) fn socket(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address, port)
    }
}

/// The identity of a GatewayClass.
pub(super) fn class_key(name: &str) -> ObjectKey {
    ObjectKey::new(GROUP, "GatewayClass", "", name)
}

/// Is the Gateway's class ours?
pub(super) fn is_ours(gateway: &Gateway, settings: &Settings, reader: &mut Reader<'_>) -> bool {
    reader.object(&class_key(&gateway.class)).is_some_and(|object| match &object.body {
        Body::GatewayClass(class) => class.controller_name == settings.controller_name,
        _ => false,
    })
}

/// Translates a Gateway; `None` where it is gone or not ours.
pub(super) fn plan(key: &ObjectKey, settings: &Settings, reader: &mut Reader<'_>) -> Option<GatewayPlan> {
    let object = reader.object(key)?;
    let Body::Gateway(gateway) = &object.body else { return None };
    if !is_ours(gateway, settings, reader) {
        return None;
    }
    reader.edge(key, "", &class_key(&gateway.class), Role::Attaches);
    let mut faults = Vec::new();
    let address = address(key, gateway, settings, &mut faults);
    let mut listeners: Vec<ListenerPlan> = gateway
        .listeners
        .iter()
        .enumerate()
        .map(|(index, (name, written))| {
            listener::plan(
                key,
                &at("spec.listeners", index),
                name,
                written.as_ref(),
                gateway,
                settings,
                reader,
                &mut faults,
            )
        })
        .collect();
    conflicts::within(key, &mut listeners, &mut faults);
    if settings.listen_address.is_some() {
        conflicts::between(
            object,
            address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            &mut listeners,
            settings,
            reader,
            &mut faults,
        );
    }
    let accepted = accepted(address.is_some(), &listeners);
    let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    if accepted.reason == "UnsupportedAddress" {
        listeners.iter_mut().for_each(|listener| listener.standing = Standing::Out);
    }
    faults.sort_unstable();
    Some(GatewayPlan { name: key.namespaced_name().into(), address, listeners, accepted, faults })
}

fn accepted(address_is_usable: bool, listeners: &[ListenerPlan]) -> Condition {
    if !address_is_usable {
        return Condition::new("Accepted", false, "UnsupportedAddress", "none of spec.addresses can be bound");
    }
    let bad: Vec<&str> = listeners.iter().filter(|l| l.standing == Standing::Out).map(|l| &*l.name).collect();
    if bad.is_empty() {
        return Condition::new("Accepted", true, "Accepted", "the Gateway is served");
    }
    // Some listeners serve: the Gateway stays accepted, as the specification allows.
    let message = format!("these listeners are not served: {}", bad.join(", "));
    Condition::new("Accepted", bad.len() < listeners.len(), "ListenersNotValid", message)
}

/// The address that a Gateway's listeners bind; `None` where it asks only for addresses that cannot be had.
pub(super) fn address(
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
        match value.parse::<IpAddr>() {
            // In a cluster the address is that of the Service, not one that Envoy binds.
            Ok(address) if is_ip && settings.listen_address.is_some() => usable = usable.or(Some(address)),
            _ => {
                let message = format!("the address {value:?} cannot be used: only addresses of type IPAddress are");
                faults.push(Fault::new(key, Class::Invalid, field, "UnsupportedAddress", message));
            }
        }
    }
    let asked = gateway.addresses.iter().any(|address| address.value.as_deref().is_some_and(|value| !value.is_empty()));
    usable.or((!asked).then_some(default))
}

/// The listeners' ports of a Gateway as they would be bound, without looking at anything else.
pub(super) fn ports(object: &Object, settings: &Settings) -> Vec<u16> {
    let Body::Gateway(gateway) = &object.body else { return Vec::new() };
    let written = gateway.listeners.iter().filter_map(|(_, listener)| listener.as_ref());
    written.filter_map(|listener| listener::bound_port(listener.port, settings)).collect()
}
