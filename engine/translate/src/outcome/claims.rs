//! The claims of a route: the listeners that it attaches to, and the hosts that it serves there.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::references::ParentRef;
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::object::Age;
use holdfast_api::section;
use holdfast_api::status::Condition;
use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_graph::{Edge, ObjectKey};

use super::delegation::RouteDelegation;

/// The field path of a route's hostnames.
pub(crate) const HOSTNAMES: &str = "spec.hostnames";

/// The field of a route that uses default Gateways, as a section.
pub(crate) const USE_DEFAULT_GATEWAYS: &str = "useDefaultGateways";

/// The reason of a parent of which every listener that a route attaches to lost a conflict.
pub const NO_READY_LISTENERS: &str = "NoReadyListeners";

/// The reason of a parent with a listener of which an older TCPRoute or UDPRoute has all that it receives.
pub const OVERRIDDEN: &str = "Overridden";

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

/// Where a route names a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentOrigin {
    /// In `spec.parentRefs`, at this index.
    ParentRef(usize),
    /// Nowhere: the parent is a default Gateway, and the route uses these.
    DefaultGateway,
}

impl ParentOrigin {
    /// Returns the part of the route that attaches it to a Gateway, as a section.
    pub(crate) fn section(self, gateway: &ObjectKey) -> String {
        match self {
            Self::ParentRef(index) => at("parentRefs", index),
            Self::DefaultGateway => format!("{USE_DEFAULT_GATEWAYS}[{}]", gateway.namespaced_name()),
        }
    }
}

/// The outcome of one parentRef, or of one default Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Parent {
    /// The parentRef as written, or one that names the default Gateway.
    pub reference: ParentRef,
    /// Where the route names the parent.
    pub origin: ParentOrigin,
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
    /// The rules of other HTTPRoutes that delegate to the route, in the order of their precedence.
    pub delegations: Vec<RouteDelegation>,
    /// The faults of the claims.
    pub faults: Vec<Fault>,
    /// The references that were read, as edges.
    pub edges: Vec<Edge>,
    /// Whether all parents belong to other controllers.
    pub(crate) anothers: bool,
}

impl Parent {
    /// Returns the part of the route that attaches it to the parent, as a section.
    pub fn section(&self) -> String {
        self.origin.section(&self.gateway)
    }

    /// Returns the field of the route that attaches it to the parent.
    pub fn field(&self) -> String {
        section::field(&self.section())
    }

    /// Returns whether the parent is a default Gateway, which the route does not name.
    pub(crate) fn is_default(&self) -> bool {
        self.origin == ParentOrigin::DefaultGateway
    }

    /// Returns whether the parent of a route in this namespace is this HTTPRoute above it.
    pub fn is_above(&self, above: &ObjectKey, namespace: &str) -> bool {
        let namespace = self.reference.namespace.as_deref().unwrap_or(namespace);
        (&*above.namespace, &above.name) == (namespace, &self.reference.name)
    }

    /// Returns whether the parent is an HTTPRoute that delegates to the route.
    pub fn is_route(&self) -> bool {
        names_route(&self.reference)
    }
}

/// Removes the spare room of lists: most have one element, and room for four.
pub(super) fn trim(parents: &mut Vec<Parent>) {
    for parent in parents.iter_mut() {
        for Attachment { listener: _, table: _, context: _, hosts, owned, lent } in &mut parent.attachments {
            [hosts, owned, lent].into_iter().for_each(Vec::shrink_to_fit);
        }
        parent.attachments.shrink_to_fit();
    }
    parents.shrink_to_fit();
}

/// Returns whether a parentRef names an HTTPRoute.
pub fn names_route(reference: &ParentRef) -> bool {
    reference.kind.as_deref() == Some(kinds::HTTP_ROUTE) && reference.group.as_deref().unwrap_or(GROUP) == GROUP
}

impl Claims {
    /// Returns the claims without spare room in their lists, the form in which they are kept.
    pub(crate) fn trimmed(mut self) -> Self {
        trim(&mut self.parents);
        self.delegations.shrink_to_fit();
        self.faults.shrink_to_fit();
        self.edges.shrink_to_fit();
        self
    }

    /// Returns every attachment of the route.
    pub fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.parents.iter().flat_map(|parent| &parent.attachments)
    }
}

/// Returns whether a fault concerns an unusable hostname.
pub fn is_unusable_hostname(fault: &Fault) -> bool {
    fault.class == Class::Invalid && fault.field.starts_with(HOSTNAMES)
}

/// A route that claims hosts at a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rival {
    pub(crate) age: Age,
    pub(crate) hosts: Vec<Host>,
}

/// Routes at a listener, by kind.
#[derive(Debug, Default)]
pub(crate) struct Rivals(HashMap<(ListenerId, Arc<str>), HashMap<ObjectKey, Rival>>);

impl Rivals {
    /// Returns the routes of a kind at a listener.
    pub(crate) fn at(&self, place: &(ListenerId, Arc<str>)) -> impl Iterator<Item = (&ObjectKey, &Rival)> + use<'_> {
        self.0.get(place).into_iter().flatten()
    }

    /// Replaces the claims of a route among those of its listeners. Returns the listeners where they changed.
    pub(crate) fn replace(
        &mut self,
        key: &ObjectKey,
        age: Option<&Age>,
        old: Option<&Claims>,
        new: Option<&Claims>,
    ) -> Vec<(ListenerId, Arc<str>)> {
        let places = |claims: Option<&Claims>| -> BTreeSet<ListenerId> {
            let attachments = claims.into_iter().flat_map(|claims| claims.attachments());
            attachments.map(|attachment| attachment.listener.clone()).collect()
        };
        let mut changed = Vec::new();
        for listener in places(old).union(&places(new)) {
            let hosts = new.into_iter().flat_map(|claims| claims.attachments());
            let hosts =
                hosts.filter(|a| a.listener == *listener).flat_map(|a| a.hosts.iter().cloned()).collect::<Vec<_>>();
            let rival = age.cloned().filter(|_| !hosts.is_empty()).map(|age| Rival { age, hosts });
            let at = (listener.clone(), key.kind.clone());
            let routes = self.0.entry(at.clone()).or_default();
            let before = match rival.clone() {
                Some(rival) => routes.insert(key.clone(), rival),
                None => routes.remove(key),
            };
            if routes.is_empty() {
                self.0.remove(&at);
            }
            if before != rival {
                changed.push(at);
            }
        }
        changed
    }
}
