//! Gateways of this controller, with the address and the ports that they bind.

use std::net::{IpAddr, Ipv4Addr};

use gateway_api::gateways::GatewayListeners;
use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::gateway::Gateway;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_envoy::model::port::BoundPort;
use holdfast_graph::ObjectKey;

use super::bound_port;
use crate::outcome::gateway::class_key;
use crate::outcome::listener::Traffic;
use crate::reader::Reader;

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
pub(crate) fn ports(object: &Object, settings: &Settings) -> Vec<BoundPort> {
    let Body::Gateway(gateway) = &object.body else { return Vec::new() };
    let written = gateway.listeners.iter().filter_map(|entry| entry.written.as_ref());
    let bound = |listener: &GatewayListeners| {
        let transport = Traffic::of(&listener.protocol, listener.tls.as_ref()).transport();
        Some(BoundPort { number: bound_port(listener.port, settings)?, transport })
    };
    written.filter_map(bound).collect()
}
