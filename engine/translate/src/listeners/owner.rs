//! Gateways of this controller, with the ports that they bind.

use gateway_api::gateways::GatewayListeners;
use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::gateway::Gateway;
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
