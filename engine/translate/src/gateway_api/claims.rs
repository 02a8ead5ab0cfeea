//! Claims of a route: the listeners that the route attaches to, and the hosts that it serves there.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::gateway::gateway::LISTENERS_MAX;
use holdfast_api::apis::gateway::references::ParentRef;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::object::Object;
use holdfast_api::section;
use holdfast_api::settings::Settings;
use holdfast_api::status::Condition;
use holdfast_envoy::model::table::Host;
use holdfast_graph::{ObjectKey, Role};

use super::parents::{self, Missing, Place};
use super::{default_gateways, delegation};
use crate::incremental::guard;
use crate::listeners::namespaces::allows_route;
use crate::outcome::claims::{Attachment, Claims, HOSTNAMES, ListenerId, NO_READY_LISTENERS, Parent, ParentOrigin};
use crate::outcome::gateway::GatewayPlan;
use crate::outcome::listener::{ListenerPlan, ListenerState};
use crate::reader::Reader;

/// Returns the parents and hostnames of a route.
pub(crate) fn written(object: &Object) -> Option<(&[ParentRef], &[Arc<str>])> {
    object.body.route().map(|route| (route.parents(), route.hostnames()))
}

/// Computes the claims of a route; `None` where the route is deleted.
pub(crate) fn claims(key: &ObjectKey, settings: &Settings, reader: &mut Reader<'_>) -> Option<Claims> {
    let mut claims = of_itself(key, settings, reader)?;
    let object = reader.object(key)?;
    claims.faults.extend(delegation::label_without_effect(object, settings, reader));
    Some(claims)
}

/// Computes the claims of a route without the reports about what other routes claim.
pub(super) fn of_itself(key: &ObjectKey, settings: &Settings, reader: &mut Reader<'_>) -> Option<Claims> {
    let object = reader.object(key)?;
    let (parents, hostnames) = written(object)?;
    let mut claims = Claims::default();
    let hosts = usable_hosts(key, hostnames, &mut claims.faults);
    let desired = reader.replaced(key).and_then(|object| written(object));
    let own = desired.map(|(_, hostnames)| usable_hosts(key, hostnames, &mut Vec::new()));
    let hosts = Hosts { all: hosts.as_deref(), own: own.as_ref().map(|own| own.as_deref()) };
    let below = delegation::below(object, settings, reader, &mut claims.faults);
    claims.delegations = below.delegations;
    claims.parents = below.refused;
    claims.anothers = below.is_anothers;
    let route = RouteAtParents { key, hosts, settings };
    for (index, reference) in parents.iter().enumerate().filter(|(index, _)| !below.references.contains(index)) {
        let field = at("spec.parentRefs", index);
        let place = match parents::of(key, reference, settings, reader) {
            Ok(place) => place,
            Err(Missing::Anothers) => {
                claims.anothers = true;
                continue;
            }
            Err(Missing::Faulty(class, reason, message, cause)) => {
                claims.faults.push(Fault::new(key, class, field, reason, message).caused_by(cause));
                continue;
            }
        };
        let joined = route.join(reference, ParentOrigin::ParentRef(index), place, reader);
        if let Some((parent, fault)) = joined {
            claims.faults.extend(fault);
            claims.parents.push(parent);
        }
    }
    if default_gateways::are_used(object) {
        default_gateways::add(&route, parents, &mut claims, reader);
    }
    if parents.is_empty() && claims.parents.is_empty() && !below.is_selected && !claims.anothers {
        claims.faults.push(default_gateways::no_parents(object));
    }
    hidden(key, hostnames, &mut claims, reader);
    claims.anothers &= claims.parents.is_empty() && claims.faults.iter().all(|fault| !is_about_parents(fault));
    Some(claims)
}

/// A route, as its parents see it.
#[derive(Clone, Copy)]
pub(super) struct RouteAtParents<'a> {
    pub(super) key: &'a ObjectKey,
    hosts: Hosts<'a>,
    pub(super) settings: &'a Settings,
}

impl RouteAtParents<'_> {
    /// Attaches the route to a parent. Returns what the parent has of it, and its fault.
    pub(super) fn join(
        &self,
        reference: &ParentRef,
        origin: ParentOrigin,
        (gateway, set): Place,
        reader: &mut Reader<'_>,
    ) -> Option<(Parent, Option<Fault>)> {
        let (key, field) = (self.key, section::field(&origin.section(&gateway)));
        let plan = reader.outcome::<GatewayPlan>(&gateway)?;
        let outcome = attach(key, reference, (&gateway, set.as_ref()), plan, self.hosts, self.settings, reader);
        let (accepted, attachments, refused) = match outcome {
            Ok(attachments) => {
                (Condition::new("Accepted", true, "Accepted", "the route is attached"), attachments, None)
            }
            Err((reason, message)) => {
                // Without a place at the Gateway, the ListenerSet is at fault.
                let cause = set.clone().filter(|set| plan.sets.get(set).is_none_or(|set| !set.joins));
                let fault = Fault::new(key, Class::Referential, field, reason, &message).caused_by(cause);
                (Condition::new("Accepted", false, reason, message), Vec::new(), Some(fault))
            }
        };
        for attachment in &attachments {
            let listener = plan.listeners.iter().find(|listener| listener.name == attachment.listener.name);
            if let Some(unit) = listener.map(|listener| listener.unit(&gateway)) {
                reader.edge_to_section(key, &unit.key, &unit.section, Role::Attaches);
            }
        }
        let reference = reference.clone();
        let parent = Parent { reference, origin, gateway, set, accepted, attachments };
        let fault = refused.or_else(|| conflicted(key, plan, &parent));
        Some((parent, fault))
    }
}

/// Returns the fault of a parent, a Gateway with this plan, of which every listener that the route attaches to lost a
/// conflict.
pub(super) fn conflicted(key: &ObjectKey, plan: &GatewayPlan, parent: &Parent) -> Option<Fault> {
    let (gateway, field) = (&parent.gateway, parent.field());
    let (mut owners, mut reasons) = (BTreeSet::new(), BTreeSet::new());
    for attachment in &parent.attachments {
        let listener = plan.listeners.iter().find(|listener| listener.name == attachment.listener.name)?;
        let conflict = Some(&listener.conflicted).filter(|known| known.status == "True")?;
        let (owner, section) = (listener.owner(gateway), listener.section());
        let name = owner.namespaced_name();
        reasons.insert(format!("listener {section} of {} {name} is not served: {}", owner.kind, conflict.message));
        owners.insert(owner);
    }
    let message = reasons.into_iter().collect::<Vec<_>>().join("; ");
    let fault = Fault::new(key, Class::Conflict, field, NO_READY_LISTENERS, message);
    owners.first().map(|owner| fault.caused_by(Some((*owner).clone())))
}

/// Returns the claims of a route after failed translation: the previous claims and a fault.
pub(crate) fn failed(key: &ObjectKey, before: Option<&Claims>) -> Claims {
    let mut claims = before.cloned().unwrap_or_default();
    claims.faults.push(guard::fault(key));
    claims.faults.sort_unstable();
    claims.faults.dedup();
    claims
}

/// Reports hosts that the route requests and gets nowhere: at each of its listeners, a more specific listener of the
/// port owns the host, and the route is not attached to that listener.
fn hidden(key: &ObjectKey, hostnames: &[Arc<str>], claims: &mut Claims, reader: &mut Reader<'_>) {
    let (mut wanted, mut got) = (BTreeSet::new(), BTreeSet::new());
    for attachment in claims.attachments() {
        // A host that belongs to a closed listener to which the route is attached is reported there.
        got.extend(attachment.owned.iter().cloned());
        let listener = &attachment.listener;
        let plan = reader.outcome::<GatewayPlan>(&listener.gateway);
        let plan = plan.and_then(|plan| plan.listeners.iter().find(|known| known.name == listener.name));
        if plan.is_some_and(|plan| plan.state == ListenerState::Serving) {
            wanted.extend(attachment.hosts.iter().cloned());
        }
    }
    for host in wanted.difference(&got) {
        let index = hostnames.iter().position(|hostname| **hostname == *host.domain());
        let field = index.map_or_else(|| HOSTNAMES.to_owned(), |index| at(HOSTNAMES, index));
        let message = format!(
            "requests for {:?} match a more specific listener of the port, to which the route is not attached",
            host.domain()
        );
        claims.faults.push(Fault::new(key, Class::Ignored, field, "HostOwnedByOtherListener", message));
    }
}

fn is_about_parents(fault: &Fault) -> bool {
    fault.field.starts_with("spec.parentRefs") || default_gateways::is_about(fault)
}

/// Returns the usable hostnames; `None` where the route names no host and thus requests all.
///
/// A route with only unusable hostnames claims nothing: it must not become a route for every host.
fn usable_hosts(key: &ObjectKey, hostnames: &[Arc<str>], faults: &mut Vec<Fault>) -> Option<Vec<Host>> {
    if hostnames.is_empty() {
        return None;
    }
    let mut hosts = Vec::new();
    for (index, hostname) in hostnames.iter().enumerate() {
        match holdfast_check::host::hostname(hostname) {
            Ok(()) => hosts.push(Host::new(Some(hostname))),
            Err(error) => {
                let field = at(HOSTNAMES, index);
                faults.push(Fault::new(key, Class::Invalid, field, "UnsupportedValue", error.to_string()));
            }
        }
    }
    Some(hosts)
}

/// The hosts that a route requests; `None` means all hosts.
#[derive(Clone, Copy)]
struct Hosts<'a> {
    /// The hosts of the version that is read.
    all: Option<&'a [Host]>,
    /// The hosts of the desired version, set only where an earlier version is read.
    own: Option<Option<&'a [Host]>>,
}

/// Returns the hosts that the route and the listener have in common.
fn shared(own: &Host, hosts: Option<&[Host]>) -> Vec<Host> {
    let mut shared: Vec<Host> = match hosts {
        None => vec![own.clone()],
        Some(hosts) => hosts.iter().filter_map(|host| own.intersection(host)).collect(),
    };
    shared.sort_unstable();
    shared.dedup();
    shared
}

fn attach(
    key: &ObjectKey,
    reference: &ParentRef,
    (gateway, set): (&ObjectKey, Option<&ObjectKey>),
    plan: &GatewayPlan,
    hosts: Hosts<'_>,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Result<Vec<Attachment>, (&'static str, String)> {
    let parent_name = match set {
        Some(set) => format!("ListenerSet {}", set.namespaced_name()),
        None => format!("Gateway {}", plan.name),
    };
    if set.is_some_and(|set| plan.sets.get(set).is_none_or(|set| !set.joins)) {
        return Err((
            "NoMatchingParent",
            format!("{parent_name} is not accepted by its Gateway: see the status of the ListenerSet"),
        ));
    }
    let named: Vec<&ListenerPlan> = plan
        .of(set)
        .filter(|listener| reference.section_name.as_ref().is_none_or(|name| name == listener.section()))
        .filter(|listener| reference.port.is_none_or(|port| port == listener.declared_port))
        .collect();
    if named.is_empty() {
        let beyond = match plan.of(None).count() >= LISTENERS_MAX && set.is_none() {
            true => format!(" among the first {LISTENERS_MAX}, which are served"),
            false => String::new(),
        };
        return Err(("NoMatchingParent", format!("{parent_name} has no listener with this name and port{beyond}")));
    }
    let allowed: Vec<&ListenerPlan> = named
        .into_iter()
        .filter(|listener| {
            listener.kinds.contains(&*key.kind) && allows_route(listener, gateway, key, settings, reader)
        })
        .collect();
    if allowed.is_empty() {
        let message = format!(
            "no listener of {parent_name} allows {} of namespace {}: see allowedRoutes",
            key.kind, key.namespace
        );
        return Err(("NotAllowedByListeners", message));
    }
    let attachments: Vec<Attachment> =
        allowed.into_iter().filter_map(|listener| attachment(gateway, plan, listener, hosts)).collect();
    if attachments.is_empty() {
        let message = "no hostname of the route matches the hostname of a listener".to_owned();
        return Err(("NoMatchingListenerHostname", message));
    }
    Ok(attachments)
}

fn attachment(
    gateway: &ObjectKey,
    plan: &GatewayPlan,
    listener: &ListenerPlan,
    hosts: Hosts<'_>,
) -> Option<Attachment> {
    let own = listener.host();
    let hosts_here = shared(&own, hosts.all);
    if hosts_here.is_empty() {
        return None;
    }
    let claimed = hosts.own.map(|hosts| shared(&own, hosts));
    let lent = hosts_here.iter().filter(|host| claimed.as_ref().is_some_and(|claimed| !claimed.contains(host)));
    // A request goes only to the most specific listener of its port.
    let others: Vec<Host> = plan
        .on_port(listener.bound())
        .filter(|other| other.name != listener.name)
        .map(ListenerPlan::host)
        .filter(|host| host.specificity() < own.specificity())
        .collect();
    let owned = hosts_here.iter().filter(|host| listener.has_place() && !others.iter().any(|other| other.covers(host)));
    Some(Attachment {
        listener: ListenerId { gateway: gateway.clone(), name: listener.name.clone() },
        table: listener.table(),
        context: listener.context(),
        lent: lent.cloned().collect(),
        owned: owned.cloned().collect(),
        hosts: hosts_here,
    })
}
