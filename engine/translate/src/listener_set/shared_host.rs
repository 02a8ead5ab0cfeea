//! Ports of ListenerSets in standalone mode, where all Gateways share one host.
//!
//! A user that may add a listener to one Gateway must not take a port away from another Gateway or from HTTPProxies: a
//! set gets only ports that no other Gateway has, and no older set of another Gateway.

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_api::apis::Body;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_envoy::model::port::BoundPort;

use super::join::join_requests;
use crate::listeners::owner;
use crate::listeners::{bound_port, conflicts};
use crate::outcome::listener::{ListenerPlan, ListenerState};
use crate::reader::Reader;

/// Rejects the listeners of sets with a port that belongs to another owner on this host.
pub(crate) fn beside(
    object: &Object,
    address: IpAddr,
    listeners: &mut [ListenerPlan],
    settings: &Settings,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) {
    if listeners.iter().all(|listener| listener.set.is_none()) {
        return;
    }
    let mut taken: BTreeMap<BoundPort, String> = BTreeMap::new();
    let own = &settings.proxies;
    if own.gateway.is_none() && !reader.hosts().is_empty() {
        taken.extend([own.http_port, own.https_port].map(|number| (BoundPort::tcp(number), "HTTPProxies".to_owned())));
    }
    let mut of_sets = Vec::new();
    for other in conflicts::neighbours(object, address, settings, reader) {
        let Body::Gateway(written) = &other.body else { continue };
        let name = format!("Gateway {}", other.key.namespaced_name());
        taken.extend(owner::ports(&other, settings).into_iter().map(|port| (port, name.clone())));
        let sets = join_requests(&other.key, written, settings, reader, &mut |_, _, _, _| {});
        for set in sets.into_iter().filter(|set| set.allowed) {
            let bound = |listener: &ListenerPlan| {
                let number = bound_port(listener.declared_port, settings)?;
                Some(BoundPort { number, ..listener.bound() })
            };
            let ports = set.claim.listeners.iter().filter_map(bound);
            of_sets.extend(ports.map(|port| (port, set.claim.age.clone(), name.clone())));
        }
    }
    for listener in listeners.iter_mut().filter(|listener| listener.state != ListenerState::Out) {
        let Some(set) = listener.set.clone() else { continue };
        let Some(age) = reader.object(&set.key).map(|object| object.age()) else { continue };
        let mut older = of_sets.iter().filter(|(port, other, _)| *port == listener.bound() && *other < age);
        let Some(owner) = taken.get(&listener.bound()).or_else(|| older.next().map(|(_, _, name)| name)) else {
            continue;
        };
        let message = format!("port {} of {address} is taken by {owner}", listener.port);
        listener.reject_port_in_use(&message);
        let field = format!("{}.port", listener.field);
        faults.push(Fault::new(&set.key, Class::Conflict, field, "PortUnavailable", message));
    }
}
