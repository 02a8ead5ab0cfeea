//! Recorded access to objects. Translation reads objects only through a `Reader`; its records show what to translate
//! again when an object changes, and which objects depend on which.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::core::endpoint_slice::{EndpointSlice, SERVICE_LABEL};
use holdfast_api::apis::gateway::gateway::Gateway;
use holdfast_api::apis::gateway::grant::ReferenceGrant;
use holdfast_api::apis::gateway::http_route::HttpRule;
use holdfast_api::apis::gateway::route::{GatewayRoute, RuleEntry};
use holdfast_api::apis::kgateway::targets::Targets;
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_check::certificate::{Bundle, BundleFault, DateFault, Validity};
use holdfast_envoy::model::table::Host;
use holdfast_graph::{Edge, Node, ObjectKey, Role};

use crate::dates::Dates;
use crate::outcome::claims::{ListenerId, Rival};
use crate::outcome::delegation::{self, RouteSelection};
use crate::outcome::gateway::LentListener;
use crate::outcome::host::{Claimant, HostClaim};
use crate::outcome::policy::{PolicyPlan, is_policy};
use crate::outcome::{Outcome, Outcomes};
use crate::overlay::Overlay;
use crate::precedence::attachment::{self, Section};

/// An input of translation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Input {
    /// An object, or its absence.
    Object(ObjectKey),
    /// All Gateways, and their ports.
    Gateways,
    /// The names of the default Gateways.
    DefaultGateways,
    /// The processes of others that use a port of this host.
    Port(u16),
    /// The ReferenceGrants of a namespace.
    Grants(Arc<str>),
    /// The EndpointSlices of a Service.
    Slices(ObjectKey),
    /// The outcome of the unit of an object, such as the plan of a Gateway or policy.
    Outcome(ObjectKey),
    /// The routes of one kind at a listener.
    Rivals(ListenerId, Arc<str>),
    /// The root HTTPProxies of a host, as written.
    Roots(Arc<str>),
    /// The claims of all root HTTPProxies.
    Hosts,
    /// The Gateway API routes that claim a host at the Gateway of HTTPProxies.
    Claimants(Host),
    /// The TLSCertificateDelegations of a namespace.
    Delegations(Arc<str>),
    /// The policies that target an object by name.
    Targeting(ObjectKey),
    /// The policies that select objects of a namespace by labels.
    Selecting(Arc<str>),
    /// The Secrets of a namespace.
    Secrets(Arc<str>),
    /// The ListenerSets that name a Gateway.
    Sets(ObjectKey),
    /// The HTTPRoutes with a rule that delegates to this selection of routes.
    Delegating(RouteSelection),
    /// The HTTPRoutes of a selection.
    Selected(RouteSelection),
    /// Whether a time has come, in seconds of Unix time.
    Date(i64),
}

/// Lookup tables of objects.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    slices: HashMap<ObjectKey, BTreeSet<ObjectKey>>,
    grants: HashMap<Arc<str>, BTreeSet<ObjectKey>>,
    gateways: BTreeSet<ObjectKey>,
    default_gateways: BTreeSet<ObjectKey>,
    roots: HashMap<Arc<str>, BTreeSet<ObjectKey>>,
    delegations: HashMap<Arc<str>, BTreeSet<ObjectKey>>,
    /// Policies by the objects that they target by name.
    targeting: HashMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Policies that select objects by labels, by namespace.
    selecting: HashMap<Arc<str>, BTreeSet<ObjectKey>>,
    secrets: HashMap<Arc<str>, BTreeSet<ObjectKey>>,
    /// ListenerSets by the Gateways that they name.
    sets: HashMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// HTTPRoutes by the selections that their rules delegate to.
    delegating: HashMap<RouteSelection, BTreeSet<ObjectKey>>,
    /// HTTPRoutes by namespace and by label.
    selected: HashMap<RouteSelection, BTreeSet<ObjectKey>>,
    /// Addresses on which other processes of the host listen.
    taken: BTreeMap<SocketAddr, Arc<str>>,
}

impl Indexes {
    /// Returns the EndpointSlices of a Service.
    pub(super) fn slices_of(&self, service: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.slices.get(service).into_iter().flatten()
    }

    /// Adds or removes an object and returns the inputs that change.
    pub(super) fn update(&mut self, object: &Object, present: bool) -> Vec<Input> {
        if let Some(targets) = object.body.targets() {
            return self.update_policy(object, targets, present);
        }
        if let Body::HttpRoute(route) = &object.body {
            return self.update_http_route(object, route, present);
        }
        if let Body::Gateway(gateway) = &object.body {
            return self.update_gateway(object, gateway, present);
        }
        self.update_one(object, present).into_iter().collect()
    }

    /// Sets the addresses on which other processes of the host listen. Returns the ports with a change.
    pub(super) fn set_taken(&mut self, taken: BTreeMap<SocketAddr, Arc<str>>) -> BTreeSet<u16> {
        let before = std::mem::replace(&mut self.taken, taken);
        let gone = before.iter().filter(|(address, process)| self.taken.get(address) != Some(process));
        let new = self.taken.iter().filter(|(address, process)| before.get(address) != Some(process));
        gone.chain(new).map(|(address, _)| address.port()).collect()
    }

    fn update_policy(&mut self, object: &Object, targets: &Targets, present: bool) -> Vec<Input> {
        let namespace = &object.key.namespace;
        let mut inputs = Vec::new();
        for (_, target) in &targets.references {
            let named = ObjectKey::new(&*target.group, &*target.kind, &**namespace, &*target.name);
            toggle(&mut self.targeting, named.clone(), &object.key, present);
            inputs.push(Input::Targeting(named));
        }
        if !targets.selectors.is_empty() {
            toggle(&mut self.selecting, namespace.clone(), &object.key, present);
            inputs.push(Input::Selecting(namespace.clone()));
        }
        inputs
    }

    fn update_gateway(&mut self, object: &Object, gateway: &Gateway, present: bool) -> Vec<Input> {
        let mut inputs = vec![Input::Gateways];
        let mut sets = vec![&mut self.gateways];
        if gateway.is_default {
            sets.push(&mut self.default_gateways);
            inputs.push(Input::DefaultGateways);
        }
        for keys in sets {
            match present {
                true => keys.insert(object.key.clone()),
                false => keys.remove(&object.key),
            };
        }
        inputs
    }

    fn update_http_route(&mut self, object: &Object, route: &GatewayRoute<HttpRule>, present: bool) -> Vec<Input> {
        let mut inputs = Vec::new();
        for selection in delegation::selections(route, &object.key.namespace) {
            toggle(&mut self.delegating, selection.clone(), &object.key, present);
            inputs.push(Input::Delegating(selection));
        }
        // A route that is named is read by its name.
        let sets = RouteSelection::containing(&object.key, &object.metadata.labels).into_iter();
        for selection in sets.filter(|selection| !matches!(selection, RouteSelection::Named(_))) {
            toggle(&mut self.selected, selection.clone(), &object.key, present);
            inputs.push(Input::Selected(selection));
        }
        inputs
    }

    fn update_one(&mut self, object: &Object, present: bool) -> Option<Input> {
        match &object.body {
            Body::EndpointSlice(_) => {
                let service = object.metadata.labels.get(SERVICE_LABEL)?;
                let service = holdfast_api::apis::scheme::service_key(&object.key.namespace, service);
                toggle(&mut self.slices, service.clone(), &object.key, present);
                Some(Input::Slices(service))
            }
            Body::ReferenceGrant(_) => {
                toggle(&mut self.grants, object.key.namespace.clone(), &object.key, present);
                Some(Input::Grants(object.key.namespace.clone()))
            }
            Body::HttpProxy(proxy) => {
                let fqdn = proxy.virtual_host.as_ref()?.fqdn.clone();
                toggle(&mut self.roots, fqdn.clone(), &object.key, present);
                Some(Input::Roots(fqdn))
            }
            Body::Secret(_) => {
                toggle(&mut self.secrets, object.key.namespace.clone(), &object.key, present);
                Some(Input::Secrets(object.key.namespace.clone()))
            }
            Body::ListenerSet(set) => {
                let gateway = set.gateway(&object.key)?;
                toggle(&mut self.sets, gateway.clone(), &object.key, present);
                Some(Input::Sets(gateway))
            }
            Body::CertificateDelegation(_) => {
                toggle(&mut self.delegations, object.key.namespace.clone(), &object.key, present);
                Some(Input::Delegations(object.key.namespace.clone()))
            }
            _ => None,
        }
    }
}

impl Indexes {
    /// Returns the ReferenceGrants of a namespace.
    pub(super) fn grants_in(&self, namespace: &str) -> impl Iterator<Item = &ObjectKey> {
        self.grants.get(namespace).into_iter().flatten()
    }

    /// Returns the TLSCertificateDelegations of a namespace.
    pub(super) fn delegations_in(&self, namespace: &str) -> impl Iterator<Item = &ObjectKey> {
        self.delegations.get(namespace).into_iter().flatten()
    }

    /// Returns the HTTPProxies that name a host.
    pub(super) fn roots_of_host(&self, fqdn: &str) -> impl Iterator<Item = &ObjectKey> {
        self.roots.get(fqdn).into_iter().flatten()
    }
}

fn toggle<K: std::hash::Hash + Eq>(index: &mut HashMap<K, BTreeSet<ObjectKey>>, at: K, key: &ObjectKey, present: bool) {
    if present {
        index.entry(at).or_default().insert(key.clone());
    } else if let Some(keys) = index.get_mut(&at) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(&at);
        }
    }
}

/// Predicate of a message about an object that does not exist, in the words of Contour.
pub(super) const NOT_FOUND: &str = "not found";

/// Reader for one unit of translation.
pub(super) struct Reader<'a> {
    pub(super) settings: &'a Settings,
    pub(super) objects: &'a ObjectSnapshot,
    /// Overlay with objects that are read in another version.
    pub(super) over: Option<&'a Overlay>,
    pub(super) indexes: &'a Indexes,
    pub(super) dates: &'a Dates,
    pub(super) outcomes: &'a Outcomes,
    pub(super) reads: Vec<Input>,
    pub(super) edges: Vec<Edge>,
}

impl<'a> Reader<'a> {
    /// Returns an object.
    pub(super) fn object(&mut self, key: &ObjectKey) -> Option<&'a Arc<Object>> {
        self.reads.push(Input::Object(key.clone()));
        let Some(over) = self.over else { return self.objects.get(key) };
        if over.hidden.contains(key) { None } else { over.objects.get(key).or_else(|| self.objects.get(key)) }
    }

    /// Returns the predicate of a message about an object that [`Self::object`] did not return.
    pub(super) fn lacking(&self, key: &ObjectKey) -> &'static str {
        if self.is_unreadable(key) { "cannot be read" } else { "does not exist" }
    }

    /// Like [`Self::lacking`], in the words of Contour.
    pub(super) fn unfound(&self, key: &ObjectKey) -> &'static str {
        if self.is_unreadable(key) { "cannot be read" } else { NOT_FOUND }
    }

    /// Returns whether an object exists, but cannot be read.
    pub(super) fn is_unreadable(&self, key: &ObjectKey) -> bool {
        self.objects.is_unreadable(key)
    }

    /// Returns the desired version of an object that is read in another version.
    pub(super) fn replaced(&self, key: &ObjectKey) -> Option<&'a Arc<Object>> {
        self.over.filter(|over| over.objects.contains_key(key)).and_then(|_| self.objects.get(key))
    }

    /// Returns whether the overlay hides an object that exists.
    pub(super) fn is_hidden(&self, key: &ObjectKey) -> bool {
        self.over.is_some_and(|over| over.hidden.contains(key)) && self.objects.get(key).is_some()
    }

    /// Returns the current version of an object even if the overlay has another one: access lists and keys are never
    /// read from an earlier version.
    pub(super) fn current(&mut self, key: &ObjectKey) -> Option<&'a Arc<Object>> {
        self.reads.push(Input::Object(key.clone()));
        let hidden = self.over.is_some_and(|over| over.hidden.contains(key));
        self.objects.get(key).filter(|_| !hidden)
    }

    /// Returns every Gateway, of any class.
    pub(super) fn gateways(&mut self) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        self.reads.push(Input::Gateways);
        let objects = self.objects;
        self.indexes.gateways.iter().filter_map(move |key| objects.get(key))
    }

    /// Returns the default Gateways of today, of any class, in the order of their names.
    pub(super) fn default_gateways(&mut self) -> impl Iterator<Item = &'a ObjectKey> + use<'a> {
        self.reads.push(Input::DefaultGateways);
        self.indexes.default_gateways.iter()
    }

    /// Returns the process that uses a port of this host, if any.
    pub(super) fn port_taken_by(&mut self, address: IpAddr, port: u16) -> Option<&'a Arc<str>> {
        self.reads.push(Input::Port(port));
        let meets = |other: &SocketAddr| {
            other.port() == port && (other.ip() == address || other.ip().is_unspecified() || address.is_unspecified())
        };
        self.indexes.taken.iter().find(|(other, _)| meets(other)).map(|(_, process)| process)
    }

    /// Returns what is reported about a certificate at this time. The unit is translated again when that changes.
    pub(super) fn date_fault(&mut self, validity: Validity) -> Option<DateFault> {
        let now = self.dates.now();
        let next = validity.next_change(now.unwrap_or(i64::MIN));
        self.reads.extend(next.map(Input::Date));
        validity.fault(now?)
    }

    /// Returns why no peer can be verified with certificate authorities at this time. The unit is translated again when
    /// that changes.
    pub(super) fn bundle_fault(&mut self, bundle: &Bundle) -> Option<BundleFault> {
        let now = self.dates.now();
        let next = bundle.next_change(now.unwrap_or(i64::MIN));
        self.reads.extend(next.map(Input::Date));
        bundle.fault(now?)
    }

    /// Returns whether objects of `from` (group, kind, namespace) may refer to this object. No other function evaluates
    /// ReferenceGrants.
    pub(super) fn granted(&mut self, from: (&str, &str, &str), to: &ObjectKey) -> bool {
        if from.2 == &*to.namespace {
            return true;
        }
        self.reads.push(Input::Grants(to.namespace.clone()));
        let grants = self.indexes.grants.get(&to.namespace);
        grants.into_iter().flatten().filter_map(|key| self.objects.get(key)).any(|object| match &object.body {
            Body::ReferenceGrant(grant) => ReferenceGrant::allows(grant, from, (&to.group, &to.kind, &to.name)),
            _ => false,
        })
    }

    /// Returns whether HTTPProxies of a namespace may use this Secret of another namespace. No other function evaluates
    /// TLSCertificateDelegations.
    pub(super) fn delegated(&mut self, namespace: &str, secret: &ObjectKey) -> bool {
        self.reads.push(Input::Delegations(secret.namespace.clone()));
        let delegations = self.indexes.delegations.get(&secret.namespace);
        delegations.into_iter().flatten().filter_map(|key| self.objects.get(key)).any(|object| match &object.body {
            Body::CertificateDelegation(delegation) => delegation.allows(&secret.name, namespace),
            _ => false,
        })
    }

    /// Returns the root HTTPProxies of a host, as written, in the order of their names.
    pub(super) fn roots(&mut self, fqdn: &Arc<str>) -> Vec<&'a Arc<Object>> {
        self.reads.push(Input::Roots(fqdn.clone()));
        self.indexes.roots.get(fqdn).into_iter().flatten().filter_map(|key| self.objects.get(key)).collect()
    }

    /// Returns the outcome of the unit of an object: the plan of a Gateway of this controller, the claim of a ListenerSet
    /// or of a root HTTPProxy. Policies are read with `policy`, since an overlay can have other plans of policies.
    pub(super) fn outcome<T: Outcome>(&mut self, key: &ObjectKey) -> Option<&'a Arc<T>> {
        self.reads.push(Input::Outcome(key.clone()));
        T::of(self.outcomes, key)
    }

    /// Returns the claims of all root HTTPProxies.
    pub(super) fn hosts(&mut self) -> BTreeMap<ObjectKey, Arc<HostClaim>> {
        self.reads.push(Input::Hosts);
        self.outcomes.hosts.clone()
    }

    /// Returns the ListenerSets that name a Gateway, in the order of their names.
    pub(super) fn sets(&mut self, gateway: &ObjectKey) -> Vec<ObjectKey> {
        self.reads.push(Input::Sets(gateway.clone()));
        self.indexes.sets.get(gateway).into_iter().flatten().cloned().collect()
    }

    /// Returns the plan of a policy; `None` where no such policy exists.
    pub(super) fn policy(&mut self, key: &ObjectKey) -> Option<&'a Arc<PolicyPlan>> {
        let desired = self.outcome(key);
        self.over.and_then(|over| over.policies.get(key)).or(desired)
    }

    /// Returns the policies attached to an object, each with the targeted section, in the order of their ranks.
    pub(super) fn policies_at(
        &mut self,
        target: &ObjectKey,
        labels: &BTreeMap<String, String>,
    ) -> Vec<(ObjectKey, &'a Arc<PolicyPlan>, Section)> {
        let mut found = Vec::new();
        for (key, sections) in self.attached(target, labels).into_iter().filter(|(key, _)| is_policy(key)) {
            let Some(plan) = self.policy(&key) else { continue };
            found.extend(sections.into_iter().map(|section| (key.clone(), plan, section)));
        }
        found.sort_by(|(_, one, _), (_, other, _)| one.rank.cmp(&other.rank));
        found
    }

    /// Returns the policies of any kind that are attached to an object, with the targeted sections.
    pub(super) fn attached(
        &mut self,
        target: &ObjectKey,
        labels: &BTreeMap<String, String>,
    ) -> BTreeMap<ObjectKey, BTreeSet<Section>> {
        self.reads.push(Input::Targeting(target.clone()));
        self.reads.push(Input::Selecting(target.namespace.clone()));
        let named = self.indexes.targeting.get(target).into_iter().flatten();
        let selecting = self.indexes.selecting.get(&target.namespace).into_iter().flatten();
        let keys: BTreeSet<&ObjectKey> = named.chain(selecting).collect();
        let sections = |key: &ObjectKey| {
            let targets = self.objects.get(key)?.body.targets()?;
            Some(attachment::sections(targets, &key.namespace, target, labels))
        };
        let all = keys.into_iter().filter_map(|key| Some((key.clone(), sections(key)?)));
        all.filter(|(_, sections)| !sections.is_empty()).collect()
    }

    /// Returns the Secrets of a namespace, in the order of their names.
    pub(super) fn secrets_of(&mut self, namespace: &Arc<str>) -> Vec<&'a Arc<Object>> {
        self.reads.push(Input::Secrets(namespace.clone()));
        let keys = self.indexes.secrets.get(namespace);
        keys.into_iter().flatten().filter_map(|key| self.objects.get(key)).collect()
    }

    /// Returns the Gateway API routes that claim a host at the Gateway of HTTPProxies. With `below`, also those that
    /// claim a host covered by this wildcard.
    pub(super) fn claimants(
        &mut self,
        host: &Host,
        below: bool,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Claimant)> + use<'a> {
        self.reads.push(Input::Claimants(host.clone()));
        let claimants = &self.outcomes.claimants;
        let equal = claimants.get(host).into_iter();
        let wanted = (below && host.is_wildcard()).then(|| host.clone());
        let inner = wanted.into_iter().flat_map(move |host| {
            let inner = claimants.iter().filter(move |(other, _)| **other != host && host.covers(other));
            inner.map(|(_, claimants)| claimants)
        });
        equal.chain(inner).flatten()
    }

    /// Returns the HTTPRoutes with a rule that delegates to a route, in the order of their names: those that do so as
    /// written now. Of a route with a rule that cannot be read, the version that is served instead counts as well.
    pub(super) fn delegating(&mut self, route: &Object) -> BTreeSet<ObjectKey> {
        let selections = RouteSelection::containing(&route.key, &route.metadata.labels);
        let mut found = BTreeSet::new();
        for selection in &selections {
            found.extend(self.indexes.delegating.get(selection).into_iter().flatten().cloned());
            self.reads.push(Input::Delegating(selection.clone()));
        }
        for (key, object) in self.over.into_iter().flat_map(|over| &over.objects) {
            let Body::HttpRoute(served) = &object.body else { continue };
            let is_lost = match self.objects.get(key).map(|object| &object.body) {
                Some(Body::HttpRoute(now)) => now.rules.iter().any(|rule| matches!(rule, RuleEntry::Broken { .. })),
                _ => true,
            };
            if is_lost && delegation::selections(served, &key.namespace).any(|named| selections.contains(&named)) {
                found.insert(key.clone());
            }
        }
        found
    }

    /// Returns the HTTPRoutes of a namespace or with a label, in the order of their names.
    pub(super) fn selected(&mut self, selection: &RouteSelection) -> Vec<ObjectKey> {
        self.reads.push(Input::Selected(selection.clone()));
        self.indexes.selected.get(selection).into_iter().flatten().cloned().collect()
    }

    /// Returns the EndpointSlices of a Service, in the order of their names.
    pub(super) fn slices(&mut self, service: &ObjectKey) -> Vec<(&'a ObjectKey, &'a EndpointSlice)> {
        self.reads.push(Input::Slices(service.clone()));
        let keys = self.indexes.slices.get(service);
        keys.into_iter()
            .flatten()
            .filter_map(|key| self.objects.get(key))
            .filter_map(|object| match &object.body {
                Body::EndpointSlice(slice) => Some((&object.key, slice)),
                _ => None,
            })
            .collect()
    }

    /// Returns what a listener had in the last valid version of its Gateway or ListenerSet, and may have again.
    pub(super) fn lent(&self, owner: &ObjectKey, listener: &str) -> Option<&'a LentListener> {
        self.outcomes.lent.get(owner)?.get(listener)
    }

    /// Returns the routes of a kind at a listener.
    pub(super) fn rivals(
        &mut self,
        listener: &ListenerId,
        kind: &str,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Rival)> {
        let at = (listener.clone(), Arc::from(kind));
        let found = self.outcomes.rivals.at(&at);
        self.reads.push(Input::Rivals(at.0, at.1));
        found
    }

    /// Records that a section of an object depends on another object.
    pub(super) fn edge(&mut self, from: &ObjectKey, section: impl Into<Arc<str>>, to: &ObjectKey, role: Role) {
        self.edges.push(Edge { from: Node::section(from.clone(), section), to: Node::whole(to.clone()), role });
    }

    /// Records that a section of an object depends on a section of another.
    pub(super) fn edge_to_section(&mut self, from: &ObjectKey, to: &ObjectKey, section: &str, role: Role) {
        self.edges.push(Edge { from: Node::whole(from.clone()), to: Node::section(to.clone(), section), role });
    }
}
