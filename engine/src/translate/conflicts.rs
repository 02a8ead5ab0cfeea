//! Listeners that claim the same: within a Gateway, and in standalone mode between Gateways of one host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_graph::ObjectKey;

use super::gateway::{self, Owner};
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
    let mut found: Vec<(usize, Standing, &'static str, String)> = Vec::new();
    let named = claimants(listeners, |listener| Some(listener.name.to_string()));
    for (name, several) in named.iter().filter(|(_, several)| several.len() > 1) {
        let message = format!("{} listeners are named {name:?}", several.len());
        found.extend(several.iter().map(|index| (*index, Standing::Out, "Invalid", message.clone())));
    }
    let takes_part = |listener: &&ListenerPlan| listener.standing != Standing::Out;
    let ports = claimants(listeners, |listener| takes_part(&listener).then_some(listener.port));
    for (port, several) in ports {
        let protocol = |index: &usize| listeners.get(*index).map(|listener| listener.https);
        if several.iter().any(|index| protocol(index) != several.first().and_then(protocol)) {
            let message = format!("listeners of protocols HTTP and HTTPS claim port {port}");
            found.extend(several.iter().map(|index| (*index, Standing::Out, "ProtocolConflict", message.clone())));
            continue;
        }
        let at_port = |listener: &ListenerPlan| takes_part(&listener) && listener.port == port;
        let hosts = claimants(listeners, |listener| at_port(listener).then(|| listener.host()));
        for (host, several) in hosts.iter().filter(|(_, several)| several.len() > 1) {
            let message = format!("{} listeners claim host {:?} on port {port}", several.len(), host.domain());
            found.extend(several.iter().map(|index| (*index, Standing::Closed, "HostnameConflict", message.clone())));
        }
    }
    for (index, standing, reason, message) in found {
        let Some(listener) = listeners.get_mut(index) else { continue };
        listener.conflicted = Condition::new("Conflicted", true, reason, &message);
        // A listener that was thrown out for one reason is not let in for another.
        let standing = if listener.standing == Standing::Out { Standing::Out } else { standing };
        listener.reject(standing, reason, &message);
        faults.push(Fault::new(key, Class::Conflict, &listener.field, reason, message));
    }
}

/// A listener with a hostname that only an earlier version claims takes no part where another one claims the same today.
pub(super) fn give_way(listeners: &mut [ListenerPlan]) {
    let takes_part = |listener: &&ListenerPlan| listener.standing != Standing::Out;
    let today = listeners.iter().filter(takes_part).filter(|listener| !listener.is_lent());
    let today: Vec<_> = today.map(|listener| (listener.port, listener.https, listener.host())).collect();
    for listener in listeners.iter_mut().filter(|listener| listener.is_lent()) {
        let (https, host) = (listener.https, listener.host());
        let mut others = today.iter().filter(|(port, ..)| *port == listener.port);
        if others.any(|(_, other, claimed)| *other != https || *claimed == host) {
            listener.standing = Standing::Out;
        }
    }
}

/// Listeners by what they claim, as far as they claim it.
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
        if gateway::owner(written, settings, reader) != Owner::Us {
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
