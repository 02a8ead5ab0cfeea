//! What a route claims: at which listeners it stands, and for which hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Edge, ObjectKey, Role};

use super::gateway::GatewayPlan;
use super::guard;
use super::listener::{ListenerPlan, Namespaces, Standing, selects};
use super::parents::{self, Missing};
use super::reader::Reader;
use super::table::{Host, TableName};
use crate::apis::Body;
use crate::apis::gateway::references::ParentRef;
use crate::apis::scheme;
use crate::check;
use crate::fault::{Class, Fault, at};
use crate::features::redirect::ListenerContext;
use crate::object::Object;
use crate::settings::Settings;
use crate::status::Condition;

/// The label of every namespace that is its name.
///
/// <https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-metadata-name>
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";
/// Where a route's hostnames stand.
const HOSTNAMES: &str = "spec.hostnames";

/// A listener of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListenerId {
    /// The Gateway.
    pub(crate) gateway: ObjectKey,
    /// The listener's name.
    pub(crate) name: Arc<str>,
}

/// A place where a route stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attachment {
    /// The listener.
    pub(crate) listener: ListenerId,
    /// The table of the listener.
    pub(crate) table: TableName,
    /// What of the listener shows in routes.
    pub(crate) context: ListenerContext,
    /// Hosts that both the listener and the route name.
    pub(crate) hosts: Vec<Host>,
    /// Those of them that are the listener's own: a more specific listener of the port owns the others.
    pub(crate) owned: Vec<Host>,
    /// Those of them that only an earlier version of the route names, which stands in: they give way to what others
    /// claim today.
    pub(crate) lent: Vec<Host>,
}

/// What became of one parentRef.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parent {
    /// As written.
    pub(crate) reference: ParentRef,
    /// Its place in `spec.parentRefs`.
    pub(crate) index: usize,
    /// The Gateway, one of ours.
    pub(crate) gateway: ObjectKey,
    /// The ListenerSet of that Gateway whose listeners are meant; the Gateway's own where unset.
    pub(crate) set: Option<ObjectKey>,
    /// `Accepted`.
    pub(crate) accepted: Condition,
    /// Where the route stands; empty where it was not accepted.
    pub(crate) attachments: Vec<Attachment>,
}

/// What a route claims.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Claims {
    /// Its parents among our Gateways.
    pub(crate) parents: Vec<Parent>,
    /// What is wrong with the claims.
    pub(crate) faults: Vec<Fault>,
    /// The references that were read.
    pub(crate) edges: Vec<Edge>,
    /// Are all its parents other controllers' business?
    pub(crate) anothers: bool,
}

impl Claims {
    /// Every place where the route stands.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.parents.iter().flat_map(|parent| &parent.attachments)
    }
}

/// The parents and hostnames of a route of either kind.
pub(super) fn written(object: &Object) -> Option<(&[ParentRef], &[Arc<str>])> {
    match &object.body {
        Body::HttpRoute(route) => Some((&route.parents, &route.hostnames)),
        Body::GrpcRoute(route) => Some((&route.parents, &route.hostnames)),
        _ => None,
    }
}

/// Works out what a route claims; `None` where it is gone.
pub(super) fn claims(key: &ObjectKey, settings: &Settings, reader: &mut Reader<'_>) -> Option<Claims> {
    let object = reader.object(key)?;
    let (parents, hostnames) = written(object)?;
    let mut claims = Claims::default();
    let hosts = usable_hosts(key, hostnames, &mut claims.faults);
    let desired = reader.replaced(key).and_then(|object| written(object));
    let own = desired.map(|(_, hostnames)| usable_hosts(key, hostnames, &mut Vec::new()));
    let hosts = Hosts { all: hosts.as_deref(), own: own.as_ref().map(|own| own.as_deref()) };
    if parents.is_empty() {
        let message = "there are no parentRefs, so that the route is served nowhere";
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
            Err(Missing::Told(class, reason, message)) => {
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

/// The claims of a route on which translation failed are those of before.
pub(super) fn failed(key: &ObjectKey, before: Option<&Claims>) -> Claims {
    let mut claims = before.cloned().unwrap_or_default();
    claims.faults.push(guard::fault(key));
    claims.faults.sort_unstable();
    claims.faults.dedup();
    claims
}

/// Tells of hosts that the route asks for and gets nowhere: at each of its listeners a more specific one of the port
/// owns them, which it isn't attached to.
fn hidden(key: &ObjectKey, hostnames: &[Arc<str>], claims: &mut Claims, reader: &mut Reader<'_>) {
    let (mut wanted, mut got) = (BTreeSet::new(), BTreeSet::new());
    for attachment in claims.attachments() {
        let listener = &attachment.listener;
        let plan = reader.plan(&listener.gateway);
        let plan = plan.and_then(|plan| plan.listeners.iter().find(|known| known.name == listener.name));
        if plan.is_some_and(|plan| plan.standing == Standing::Serving) {
            wanted.extend(attachment.hosts.iter().cloned());
            got.extend(attachment.owned.iter().cloned());
        }
    }
    for host in wanted.difference(&got) {
        let index = hostnames.iter().position(|hostname| **hostname == *host.domain());
        let field = index.map_or_else(|| HOSTNAMES.to_owned(), |index| at(HOSTNAMES, index));
        let message = format!(
            "requests for {:?} go to a more specific listener of the port, which the route is not attached to",
            host.domain()
        );
        claims.faults.push(Fault::new(key, Class::Ignored, field, "HostOwnedByOtherListener", message));
    }
}

/// Is it about a hostname that cannot be used?
pub(crate) fn is_unusable_hostname(fault: &Fault) -> bool {
    fault.class == Class::Invalid && fault.field.starts_with(HOSTNAMES)
}

fn is_about_parents(fault: &Fault) -> bool {
    fault.field.starts_with("spec.parentRefs")
}

/// The hostnames that can be used; `None` where the route asks for none in particular.
///
/// A route all of whose hostnames are unusable claims nothing: it must not become one for every host.
fn usable_hosts(key: &ObjectKey, hostnames: &[Arc<str>], faults: &mut Vec<Fault>) -> Option<Vec<Host>> {
    if hostnames.is_empty() {
        return None;
    }
    let mut hosts = Vec::new();
    for (index, hostname) in hostnames.iter().enumerate() {
        match check::host::hostname(hostname) {
            Ok(()) => hosts.push(Host::new(Some(hostname))),
            Err(error) => {
                let field = at(HOSTNAMES, index);
                faults.push(Fault::new(key, Class::Invalid, field, "UnsupportedValue", error.to_string()));
            }
        }
    }
    Some(hosts)
}

/// The hosts that a route asks for; `None` stands for all.
#[derive(Clone, Copy)]
struct Hosts<'a> {
    /// Those of the version that is read.
    all: Option<&'a [Host]>,
    /// Where an earlier version is read: those of the desired one.
    own: Option<Option<&'a [Host]>>,
}

/// What hosts have in common with those of a listener.
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
    let whose = match set {
        Some(set) => format!("ListenerSet {}", set.namespaced_name()),
        None => format!("Gateway {}", plan.name),
    };
    if set.is_some_and(|set| plan.sets.get(set).is_none_or(|set| !set.joins)) {
        return Err(("NoMatchingParent", format!("{whose} does not take part in its Gateway: see its status")));
    }
    let named: Vec<&ListenerPlan> = plan
        .of(set)
        .filter(|listener| reference.section_name.as_ref().is_none_or(|name| name == listener.section()))
        .filter(|listener| reference.port.is_none_or(|port| port == listener.declared_port))
        .collect();
    if named.is_empty() {
        return Err(("NoMatchingParent", format!("{whose} has no listener with this name and port")));
    }
    let allowed: Vec<&ListenerPlan> = named
        .into_iter()
        .filter(|listener| listener.kinds.contains(&*key.kind) && lets_in(listener, gateway, key, settings, reader))
        .collect();
    if allowed.is_empty() {
        let message =
            format!("no listener of {whose} lets in {} of namespace {}: see allowedRoutes", key.kind, key.namespace);
        return Err(("NotAllowedByListeners", message));
    }
    let attachments: Vec<Attachment> =
        allowed.into_iter().filter_map(|listener| attachment(gateway, plan, listener, hosts)).collect();
    if attachments.is_empty() {
        let message = "none of the route's hostnames is one of the listeners'".to_owned();
        return Err(("NoMatchingListenerHostname", message));
    }
    Ok(attachments)
}

/// Does a listener let in routes of a namespace?
pub(super) fn lets_in(
    listener: &ListenerPlan,
    gateway: &ObjectKey,
    route: &ObjectKey,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> bool {
    is_among(&listener.namespaces, &listener.owner(gateway).namespace, &route.namespace, settings, reader)
}

/// Is a namespace among those that are let in? `own` is that of who lets in.
pub(super) fn is_among(
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
                // In files nobody writes every namespace down. In a cluster every namespace is there, and one that is
                // not known yet is not let in for labels that it may turn out to have.
                None if settings.listen_address.is_some() => BTreeMap::new(),
                None => return false,
            };
            // The API server sets it on every namespace.
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
    // A request goes to the most specific listener of its port, and to no other.
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
