//! Conflicts between listeners: within a Gateway or ListenerSet, between several such objects at one Gateway, and in
//! standalone mode between Gateways of one host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_api::status::Condition;
use holdfast_envoy::model::port::{BoundPort, Transport};
use holdfast_envoy::model::table::Host;
use holdfast_graph::ObjectKey;

use super::addresses;
use super::owner::{self, Owner};
use crate::outcome::listener::{ListenerPlan, ListenerState};
use crate::reader::Reader;

/// Two listeners of one port have different protocols.
const PROTOCOL_CONFLICT: &str = "ProtocolConflict";
/// Two listeners of one port have the same host.
const HOSTNAME_CONFLICT: &str = "HostnameConflict";

/// Claims of earlier objects on one port.
#[derive(Default)]
struct Taken {
    /// The protocols of the port.
    protocols: BTreeSet<&'static str>,
    hosts: BTreeSet<Host>,
}

/// Resolves conflicts among all listeners of a Gateway: its own, then those of ListenerSets in the order of precedence.
/// A claim of an earlier object excludes the claim of a later object; within one object, all conflicting listeners
/// lose.
pub(crate) fn among(gateway: &ObjectKey, listeners: &mut [ListenerPlan], faults: &mut Vec<Fault>) {
    let mut taken: BTreeMap<BoundPort, Taken> = BTreeMap::new();
    let same = |one: &ListenerPlan, other: &ListenerPlan| one.owner(gateway) == other.owner(gateway);
    for own in listeners.chunk_by_mut(same) {
        let Some(owner) = own.first().map(|listener| listener.owner(gateway).clone()) else { continue };
        let lost = behind(&owner, own, &taken, faults);
        within(&owner, own, faults);
        for (_, listener) in own.iter().enumerate().filter(|(index, _)| !lost.contains(index)) {
            let takes_part = listener.state != ListenerState::Out;
            // A port that is claimed for two protocols is not available to later objects either.
            if takes_part || listener.conflicted.reason == PROTOCOL_CONFLICT {
                let port = taken.entry(listener.bound()).or_default();
                port.protocols.insert(listener.transport());
                port.hosts.extend(takes_part.then(|| listener.host()));
            }
        }
    }
}

/// Rejects the listeners of an object that claim what an earlier object has, and returns their indexes. The message
/// does not name the earlier object, since that object may belong to another user.
fn behind(
    owner: &ObjectKey,
    listeners: &mut [ListenerPlan],
    taken: &BTreeMap<BoundPort, Taken>,
    faults: &mut Vec<Fault>,
) -> BTreeSet<usize> {
    let mut lost = BTreeSet::new();
    for (index, listener) in listeners.iter_mut().enumerate() {
        let Some(port) = taken.get(&listener.bound()) else { continue };
        let is_known = listener.accepted.reason != "UnsupportedProtocol";
        let (reason, what) = if !is_known || port.protocols.iter().any(|protocol| *protocol != listener.transport()) {
            (PROTOCOL_CONFLICT, "is claimed for another protocol".to_owned())
        } else if listener.state != ListenerState::Out && port.hosts.contains(&listener.host()) {
            (HOSTNAME_CONFLICT, format!("is claimed for host {:?}", listener.host().domain()))
        } else {
            continue;
        };
        let message = format!("port {} {what} by a listener that has precedence", listener.declared_port);
        listener.conflicted = Condition::new("Conflicted", true, reason, &message);
        listener.reject(ListenerState::Out, reason, &message);
        faults.push(Fault::new(owner, Class::Conflict, &listener.field, reason, message));
        lost.insert(index);
    }
    lost
}

/// Resolves conflicts among the listeners of one Gateway or ListenerSet: a port has one protocol, a host on a port has
/// one listener, and a name has one listener.
///
/// As the specification requires, all conflicting listeners are rejected. Their hosts stay closed, so that no broader
/// listener answers for them.
///
/// <https://gateway-api.sigs.k8s.io/reference/spec/#gatewayspec> (Distinct Listeners)
fn within(key: &ObjectKey, listeners: &mut [ListenerPlan], faults: &mut Vec<Fault>) {
    let mut found: Vec<(usize, ListenerState, &'static str, String)> = Vec::new();
    let named = claimants(listeners, |listener| Some(listener.section().to_string()));
    for (name, several) in named.iter().filter(|(_, several)| several.len() > 1) {
        let message = format!("{} listeners are named {name:?}", several.len());
        found.extend(several.iter().map(|index| (*index, ListenerState::Out, "Invalid", message.clone())));
    }
    let takes_part = |listener: &&ListenerPlan| listener.state != ListenerState::Out;
    let ports = claimants(listeners, |listener| takes_part(&listener).then(|| listener.bound()));
    for (port, several) in ports {
        let protocol = |index: &usize| listeners.get(*index).map(|listener| listener.transport());
        if several.iter().any(|index| protocol(index) != several.first().and_then(protocol)) {
            let protocols: BTreeSet<&str> = several.iter().filter_map(protocol).collect();
            let protocols =
                protocols.into_iter().map(|protocol| if protocol == "TLS" { "HTTPS or TLS" } else { protocol });
            let protocols = protocols.collect::<Vec<_>>().join(" and ");
            let message = format!("listeners of protocols {protocols} claim port {}", port.number);
            found.extend(several.iter().map(|index| (*index, ListenerState::Out, PROTOCOL_CONFLICT, message.clone())));
            continue;
        }
        let at_port = |listener: &ListenerPlan| takes_part(&listener) && listener.bound() == port;
        let hosts = claimants(listeners, |listener| at_port(listener).then(|| listener.host()));
        for (host, several) in hosts.iter().filter(|(_, several)| several.len() > 1) {
            let message = format!("{} listeners claim host {:?} on port {}", several.len(), host.domain(), port.number);
            found.extend(
                several.iter().map(|index| (*index, ListenerState::Closed, HOSTNAME_CONFLICT, message.clone())),
            );
        }
    }
    for (index, state, reason, message) in found {
        let Some(listener) = listeners.get_mut(index) else { continue };
        listener.conflicted = Condition::new("Conflicted", true, reason, &message);
        // A listener that is rejected for one reason is not accepted again for another.
        let state = if listener.state == ListenerState::Out { ListenerState::Out } else { state };
        listener.reject(state, reason, &message);
        faults.push(Fault::new(key, Class::Conflict, &listener.field, reason, message));
    }
}

/// Rejects each listener with a hostname that only an earlier version claims, if another listener of the port claims
/// this hostname today or has another protocol.
pub(crate) fn give_way(listeners: &mut [ListenerPlan]) {
    let takes_part = |listener: &&ListenerPlan| listener.state != ListenerState::Out;
    let today = listeners.iter().filter(takes_part).filter(|listener| !listener.is_lent());
    let today: Vec<_> = today.map(|listener| (listener.bound(), listener.transport(), listener.host())).collect();
    for listener in listeners.iter_mut().filter(|listener| listener.is_lent()) {
        let (protocol, host) = (listener.transport(), listener.host());
        let mut others = today.iter().filter(|(port, ..)| *port == listener.bound());
        if others.any(|(_, other, claimed)| *other != protocol || *claimed == host) {
            listener.state = ListenerState::Out;
        }
    }
}

/// Returns the indexes of the listeners by their claims; listeners without a claim are omitted.
fn claimants<K: Ord>(
    listeners: &[ListenerPlan],
    claim: impl Fn(&ListenerPlan) -> Option<K>,
) -> BTreeMap<K, Vec<usize>> {
    let mut claimants: BTreeMap<K, Vec<usize>> = BTreeMap::new();
    for (index, listener) in listeners.iter().enumerate() {
        if let Some(claim) = claim(listener) {
            claimants.entry(claim).or_default().push(index);
        }
    }
    claimants
}

/// Resolves conflicts about ports in standalone mode, where all Gateways share one host: the older Gateway gets the
/// port. Ports that other processes use are unavailable.
pub(crate) fn between(
    object: &Object,
    address: IpAddr,
    listeners: &mut [ListenerPlan],
    settings: &Settings,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) {
    let age = object.age();
    let mut all = neighbours(object, address, settings, reader);
    all.retain(|other| other.age() < age);
    for other in all {
        let taken = owner::ports(&other, settings);
        for listener in listeners.iter_mut().filter(|l| l.state != ListenerState::Out && taken.contains(&l.bound())) {
            let message = format!(
                "port {} of {address} is taken by the older Gateway {}",
                listener.port,
                other.key.namespaced_name()
            );
            listener.reject_port_in_use(&message);
            let field = format!("{}.port", listener.field);
            let owner = listener.owner(&object.key);
            faults.push(Fault::new(owner, Class::Conflict, field, "PortUnavailable", message));
        }
    }
    // Only sockets that accept connections are known.
    let is_of_connections = |listener: &&mut ListenerPlan| listener.bound().transport == Transport::Tcp;
    let listeners = listeners.iter_mut().filter(|listener| listener.state != ListenerState::Out);
    for listener in listeners.filter(is_of_connections) {
        let Some(process) = reader.port_taken_by(address, listener.port) else { continue };
        let message = taken_by(address, listener.port, process);
        listener.reject_port_in_use(&message);
        let field = format!("{}.port", listener.field);
        let owner = listener.owner(&object.key);
        faults.push(Fault::new(owner, Class::Conflict, field, "PortUnavailable", message));
    }
}

/// Returns the message about a port that another process uses.
pub(crate) fn taken_by(address: IpAddr, port: u16, process: &str) -> String {
    format!(
        "port {port} of {address} is in use by {process}, which is not an Envoy of this Holdfast: requests reach that \
         process. End it, or choose another port; the listener is served as soon as the port is free"
    )
}

/// Returns the other Gateways of this controller that bind the same address.
pub(crate) fn neighbours(
    object: &Object,
    address: IpAddr,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Vec<Arc<Object>> {
    let others: Vec<Arc<Object>> = reader.gateways().filter(|other| other.key != object.key).cloned().collect();
    let mut shares = |other: &Object| {
        let Body::Gateway(written) = &other.body else { return false };
        if owner::owner(written, settings, reader) != Owner::Us {
            return false;
        }
        let theirs = addresses::read(&other.key, written, settings, &mut Vec::new()).bound;
        theirs.is_some_and(|theirs| theirs == address || theirs.is_unspecified() || address.is_unspecified())
    };
    others.into_iter().filter(|other| shares(other)).collect()
}
