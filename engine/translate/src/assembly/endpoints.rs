//! Leaf resources: endpoints of Services, and certificates. Each has a short update path of its own.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use holdfast_api::apis::Body;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::settings::Settings;
use holdfast_envoy::encode::{self, names};
use holdfast_envoy::model::ServicePort;
use holdfast_graph::{ObjectKey, Origins};
use holdfast_xds::Resource;

use crate::reader::Reader;

/// Served endpoints of one Service port; further endpoints are left out and reported.
pub(crate) const ENDPOINTS_MAX: usize = 10_000;

/// Returns the endpoints of a Service's port from all its EndpointSlices. Addresses that are not allowed as backends
/// are left out and reported.
pub(crate) fn endpoints(service: &ServicePort, settings: &Settings, reader: &mut Reader<'_>) -> (Resource, Vec<Fault>) {
    let mut faults = Vec::new();
    let mut addresses = BTreeSet::new();
    let mut origins = vec![service.key.clone()];
    let named = reader.object(&service.key).and_then(|object| match &object.body {
        Body::Service(known) => {
            let name = |port| known.port(port, service.transport.name()).map(|port| port.name.clone());
            name(service.port).map(|own| (own, service.health.and_then(name)))
        }
        _ => None,
    });
    let (name, health_name) = named.map_or((None, None), |(name, health)| (Some(name), health));
    let slices = if name.is_some() { reader.slices(&service.key) } else { Vec::new() };
    for (key, slice) in slices {
        origins.push(key.clone());
        if slice.fqdn {
            let message = "addressType FQDN is not supported: endpoints must be IP addresses";
            faults.push(Fault::new(key, Class::Ignored, "addressType", "NotServed", message));
            continue;
        }
        let Some(port) = slice.ports.iter().find(|port| Some(&port.name) == name.as_ref()) else { continue };
        let health = slice.ports.iter().find(|port| Some(&port.name) == health_name.as_ref()).map(|port| port.port);
        for (index, text) in slice.addresses.iter() {
            match holdfast_check::address::parse(text, settings.allow_loopback_backends) {
                Ok(_) if addresses.len() >= ENDPOINTS_MAX => {
                    let message = format!(
                        "a port of a Service may have at most {ENDPOINTS_MAX} endpoints; further endpoints get no \
                         requests"
                    );
                    faults.push(Fault::new(key, Class::Invalid, "endpoints", "TooMany", message));
                    break;
                }
                Ok(address) => {
                    addresses.insert((SocketAddr::new(address, port.port), health));
                }
                Err(error) => {
                    let field = format!("endpoints[{index}].addresses[0]");
                    faults.push(Fault::new(key, Class::Invalid, field, "AddressNotAllowed", error.to_string()));
                }
            }
        }
    }
    let body = encode::endpoints::encode(service, &addresses);
    (Resource::new(names::endpoints(service), body, origins.into_iter().collect::<Origins>()), faults)
}

/// Returns a certificate as a resource; `None` where the Secret is missing or incomplete. The listener has already
/// checked that the certificate is usable.
pub(crate) fn secret(key: &ObjectKey, reader: &mut Reader<'_>) -> Option<Resource> {
    let object = reader.object(key)?;
    let Body::Secret(secret) = &object.body else { return None };
    let (chain, private_key) = (secret.data.get("tls.crt")?, secret.data.get("tls.key")?);
    let body = encode::secret::encode(key, chain, private_key);
    Some(Resource::new(names::secret(key), body, Origins::one(key.clone())))
}
