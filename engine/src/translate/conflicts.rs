//! Listeners that claim the same: within a Gateway, and in standalone mode between Gateways of one host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_graph::ObjectKey;

use super::gateway;
use super::listener::{ListenerPlan, Standing};
use super::reader::Reader;
use crate::apis::Body;
use crate::fault::{Class, Fault};
use crate::object::Object;
use crate::settings::Settings;
use crate::status::Condition;

/// Judges the listeners of one Gateway: a port has one protocol, a host on a port one listener, a name one listener.
///
/// The specification lets nobody win: all that conflict are thrown out. Their hosts stay closed, so that a broader
/// listener does not answer in their place.
///
/// <https://gateway-api.sigs.k8s.io/reference/spec/#gatewayspec> (Distinct Listeners)
pub(super) fn within(key: &ObjectKey, listeners: &mut [ListenerPlan], faults: &mut Vec<Fault>) {
    let mut names: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut ports: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    let mut hosts: BTreeMap<(u16, String), Vec<usize>> = BTreeMap::new();
    for (index, listener) in listeners.iter().enumerate() {
        names.entry(listener.name.to_string()).or_default().push(index);
        if listener.standing != Standing::Out {
            ports.entry(listener.port).or_default().push(index);
            hosts.entry((listener.port, listener.host().domain().to_owned())).or_default().push(index);
        }
    }
    let mut reject = |index: usize, standing: Standing, reason: &'static str, message: String| {
        let Some(listener) = listeners.get_mut(index) else { return };
        listener.conflicted = Condition::new("Conflicted", true, reason, &message);
        listener.reject(standing, reason, &message);
        faults.push(Fault::new(key, Class::Conflict, &listener.field, reason, message));
    };
    for (name, claimants) in names.iter().filter(|(_, claimants)| claimants.len() > 1) {
        for index in claimants {
            reject(*index, Standing::Out, "Invalid", format!("{} listeners are named {name:?}", claimants.len()));
        }
    }
    for ((port, host), claimants) in hosts.iter().filter(|(_, claimants)| claimants.len() > 1) {
        for index in claimants {
            let message = format!("{} listeners claim host {host:?} on port {port}", claimants.len());
            reject(*index, Standing::Closed, "HostnameConflict", message);
        }
    }
    let mixed: Vec<_> = ports
        .into_iter()
        .filter(|(_, claimants)| {
            let mut protocols = claimants.iter().filter_map(|index| listeners.get(*index)).map(|l| l.https);
            let first = protocols.next();
            protocols.any(|protocol| Some(protocol) != first)
        })
        .collect();
    for (port, claimants) in mixed {
        for index in claimants {
            let Some(listener) = listeners.get_mut(index) else { continue };
            let message = format!("listeners of protocols HTTP and HTTPS claim port {port}");
            listener.conflicted = Condition::new("Conflicted", true, "ProtocolConflict", &message);
            listener.reject(Standing::Out, "ProtocolConflict", &message);
            faults.push(Fault::new(key, Class::Conflict, &listener.field, "ProtocolConflict", message));
        }
    }
}

/// In standalone mode all Gateways share one host: of two that want a port the older has it.
pub(super) fn between(
    object: &Object,
    address: IpAddr,
    listeners: &mut [ListenerPlan],
    settings: &Settings,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) {
    let age = object.age();
    let older: Vec<_> = reader.gateways().filter(|other| other.key != object.key && other.age() < age).collect();
    for other in older {
        let Body::Gateway(written) = &other.body else { continue };
        if !gateway::is_ours(written, settings, reader) {
            continue;
        }
        let Some(theirs) = gateway::address(&other.key, written, settings, &mut Vec::new()) else { continue };
        if theirs != address && !theirs.is_unspecified() && !address.is_unspecified() {
            continue;
        }
        let taken = gateway::ports(other, settings);
        for listener in listeners.iter_mut().filter(|l| l.standing != Standing::Out && taken.contains(&l.port)) {
            let message = format!(
                "port {} of {address} is taken by the older Gateway {}",
                listener.port,
                other.key.namespaced_name()
            );
            listener.reject(Standing::Out, "PortUnavailable", &message);
            faults.push(Fault::new(
                &object.key,
                Class::Conflict,
                format!("{}.port", listener.field),
                "PortUnavailable",
                message,
            ));
        }
    }
}
