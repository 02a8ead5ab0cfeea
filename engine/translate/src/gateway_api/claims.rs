//! Claims of a route: the listeners that the route attaches to, and the hosts that it serves there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::references::ParentRef;
use holdfast_api::apis::scheme;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_api::status::Condition;
use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_graph::{Edge, ObjectKey, Role};

use super::gateway::GatewayPlan;
use super::listener::{ListenerPlan, ListenerState, Namespaces, selects};
use super::parents::{self, Missing};
use crate::incremental::guard;
use crate::reader::Reader;

/// The label of a namespace that contains its name; every namespace has it.
///
/// <https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-metadata-name>
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";
/// The field path of a route's hostnames.
const HOSTNAMES: &str = "spec.hostnames";

/// A listener of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId {
    /// The Gateway.
    pub gateway: ObjectKey,
    /// The listener's name.
    pub name: Arc<str>,
}

/// An attachment of a route to a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Attachment {
    /// The listener.
    pub listener: ListenerId,
    /// The table of the listener.
    pub table: TableName,
    /// The properties of the listener that routes depend on.
    pub context: ListenerContext,
    /// Hosts that both the listener and the route name.
    pub hosts: Vec<Host>,
    /// The hosts among `hosts` that the listener owns: a more specific listener of the port owns the others.
    pub owned: Vec<Host>,
    /// The hosts among `hosts` that only the stand-in version of the route names, an earlier version: they yield to
    /// hosts that other objects claim today.
    pub lent: Vec<Host>,
}

/// The outcome of one parentRef.
#[derive(Clone, Debug, PartialEq)]
pub struct Parent {
    /// The parentRef as written.
    pub reference: ParentRef,
    /// The index in `spec.parentRefs`.
    pub index: usize,
    /// The Gateway, one that Holdfast serves.
    pub gateway: ObjectKey,
    /// The ListenerSet of that Gateway that the parentRef names; unset for the Gateway's own listeners.
    pub set: Option<ObjectKey>,
    /// The condition `Accepted`.
    pub accepted: Condition,
    /// The attachments of the route; empty where the route is not accepted.
    pub attachments: Vec<Attachment>,
}

/// The claims of a route.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claims {
    /// The parents of the route among the Gateways that Holdfast serves.
    pub parents: Vec<Parent>,
    /// The faults of the claims.
    pub faults: Vec<Fault>,
    /// The references that were read, as edges.
    pub edges: Vec<Edge>,
    /// Whether all parents belong to other controllers.
    pub(crate) anothers: bool,
}

impl Claims {
    /// Returns every attachment of the route.
    pub fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.parents.iter().flat_map(|parent| &parent.attachments)
    }
}

/// Returns the parents and hostnames of an HTTPRoute or GRPCRoute.
pub(crate) fn written(object: &Object) -> Option<(&[ParentRef], &[Arc<str>])> {
    match &object.body {
        Body::HttpRoute(route) => Some((&route.parents, &route.hostnames)),
        Body::GrpcRoute(route) => Some((&route.parents, &route.hostnames)),
        _ => None,
    }
}

/// Computes the claims of a route; `None` where the route is deleted.
pub(crate) fn claims(key: &ObjectKey, settings: &Settings, reader: &mut Reader<'_>) -> Option<Claims> {
    let object = reader.object(key)?;
    let (parents, hostnames) = written(object)?;
    let mut claims = Claims::default();
    let hosts = usable_hosts(key, hostnames, &mut claims.faults);
    let desired = reader.replaced(key).and_then(|object| written(object));
    let own = desired.map(|(_, hostnames)| usable_hosts(key, hostnames, &mut Vec::new()));
    let hosts = Hosts { all: hosts.as_deref(), own: own.as_ref().map(|own| own.as_deref()) };
    if parents.is_empty() {
        let message = "parentRefs is empty: the route is attached to no Gateway and is not served";
        claims.faults.push(Fault::new(key, Class::Ignored, "spec.parentRefs", "NoParents", message));
    }
    for (index, reference) in parents.iter().enumerate() {
        let field = at("spec.parentRefs", index);
        let (gateway, set) = match parents::of(key, reference, settings, reader) {
            Ok(place) => place,
            Err(Missing::Anothers) => {
                claims.anothers = true;
                continue;
            }
            Err(Missing::Faulty(class, reason, message)) => {
                claims.faults.push(Fault::new(key, class, field, reason, message));
                continue;
            }
        };
        let Some(plan) = reader.plan(&gateway) else { continue };
        let outcome = attach(key, reference, (&gateway, set.as_ref()), plan, hosts, settings, reader);
        let (accepted, attachments) = match outcome {
            Ok(attachments) => (Condition::new("Accepted", true, "Accepted", "the route is attached"), attachments),
            Err((reason, message)) => {
                claims.faults.push(Fault::new(key, Class::Referential, field, reason, &message));
                (Condition::new("Accepted", false, reason, message), Vec::new())
            }
        };
        for attachment in &attachments {
            let listener = plan.listeners.iter().find(|listener| listener.name == attachment.listener.name);
            if let Some(unit) = listener.map(|listener| listener.unit(&gateway)) {
                reader.edge_to_section(key, &unit.key, &unit.section, Role::Attaches);
            }
        }
        claims.parents.push(Parent { reference: reference.clone(), index, gateway, set, accepted, attachments });
    }
    hidden(key, hostnames, &mut claims, reader);
    claims.anothers &= claims.parents.is_empty() && claims.faults.iter().all(|fault| !is_about_parents(fault));
    Some(claims)
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
        let listener = &attachment.listener;
        let plan = reader.plan(&listener.gateway);
        let plan = plan.and_then(|plan| plan.listeners.iter().find(|known| known.name == listener.name));
        if plan.is_some_and(|plan| plan.state == ListenerState::Serving) {
            wanted.extend(attachment.hosts.iter().cloned());
            got.extend(attachment.owned.iter().cloned());
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

/// Returns whether a fault concerns an unusable hostname.
pub fn is_unusable_hostname(fault: &Fault) -> bool {
    fault.class == Class::Invalid && fault.field.starts_with(HOSTNAMES)
}

fn is_about_parents(fault: &Fault) -> bool {
    fault.field.starts_with("spec.parentRefs")
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
        return Err(("NoMatchingParent", format!("{parent_name} has no listener with this name and port")));
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

/// Returns whether a listener allows routes of the route's namespace.
pub(crate) fn allows_route(
    listener: &ListenerPlan,
    gateway: &ObjectKey,
    route: &ObjectKey,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> bool {
    is_among(&listener.namespaces, &listener.owner(gateway).namespace, &route.namespace, settings, reader)
}

/// Returns whether a namespace is allowed. `own` is the namespace of the object with the `allowed` field.
pub(crate) fn is_among(
    allowed: &Namespaces,
    own: &str,
    namespace: &str,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> bool {
    match allowed {
        Namespaces::All => true,
        Namespaces::Same => own == namespace,
        Namespaces::None => false,
        Namespaces::Selected(selector) => {
            let mut labels = match reader.object(&scheme::namespace_key(namespace)) {
                Some(namespace) => namespace.metadata.labels.clone(),
                // Manifest files need not contain every namespace, so in standalone mode a missing namespace has no
                // labels. In a cluster every namespace exists, and a namespace that is not known yet is not allowed by
                // labels that it may have.
                None if settings.listen_address.is_some() => BTreeMap::new(),
                None => return false,
            };
            // The API server sets this label on every namespace.
            labels.entry(NAMESPACE_LABEL.to_owned()).or_insert_with(|| namespace.to_owned());
            selects(selector, &labels)
        }
    }
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
        .on_port(listener.port)
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
