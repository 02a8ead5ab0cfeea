//! Queries to translation other than its outcome: desired and served plans, plans under an overlay, and the readers of
//! an object.

pub mod chain_units;
pub mod clients;
pub mod duplicates;
pub mod effects;
mod reach;
mod reports;
mod routes;
mod secured;
mod uses;
pub mod validations;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::object::Object;
use holdfast_api::section::STREAM;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_envoy::features::upstream::ClientIdentity;
use holdfast_envoy::model::port::BoundPort;
use holdfast_envoy::model::table::TableName;
use holdfast_envoy::model::{BackendCluster, ServicePort};
use holdfast_graph::ObjectKey;

use crate::assembly::fleet::{Fleet, FleetId, GatewayGuards};
use crate::backend_policy::plan::BackendPlan;
use crate::gateway_api::gateway::{self, Outcome};
use crate::incremental::guard;
use crate::outcome::gateway::GatewayPlan;
use crate::outcome::listener::ListenerState;
use crate::outcome::policy::PolicyPlan;
use crate::outcome::setting::PolicySetting;
use crate::overlay::Overlay;
use crate::policy::level::LevelPlan;
use crate::provision::Port;
use crate::reader::Input;
use crate::{Translator, Unit, backend_policy, policy};

/// A host of a route that a policy of the Gateway or of a listener closes.
#[derive(Clone, Debug)]
pub struct ClosedHost<'a> {
    /// The route object.
    pub route: &'a ObjectKey,
    /// The listener where the host is closed, while another host of the route, or the same host elsewhere, is open.
    pub listener: Option<Arc<str>>,
    /// The host.
    pub host: Arc<str>,
    /// The policy.
    pub policy: &'a ObjectKey,
}

/// Connections to a host that Envoy forwards as bytes.
#[derive(Clone, Debug)]
pub struct TcpHost<'a> {
    /// The root HTTPProxy, or the route.
    pub root: &'a ObjectKey,
    /// The section of the object.
    pub section: &'a str,
    /// The Gateway.
    pub gateway: &'a ObjectKey,
    /// The host.
    pub host: &'a str,
    /// The backends.
    pub services: BTreeSet<&'a ServicePort>,
}

impl Translator {
    /// Returns the hosts of desired routes and HTTPProxies of which connections are forwarded without HTTP.
    pub fn tcp_hosts(&self) -> impl Iterator<Item = TcpHost<'_>> {
        let of_routes = self.routes.each().filter_map(|(root, plan)| Some((root, plan, plan.stream.as_ref()?)));
        let of_routes = of_routes.flat_map(|(root, plan, stream)| {
            let services: BTreeSet<&ServicePort> = stream.backends().filter_map(BackendCluster::service).collect();
            let places = plan.places.iter();
            places.map(move |(gateway, _, host)| TcpHost {
                root,
                section: &stream.node.section,
                gateway,
                host: host.domain(),
                services: services.clone(),
            })
        });
        let of_proxies = self.outcomes.hosts.iter().filter_map(|(root, claim)| {
            let (seats, host) = (claim.seats.as_ref()?, claim.host.as_ref()?.domain());
            let to = claim.tls.as_ref()?.stream.as_ref()?.to.as_ref()?;
            let services = to.backends.iter().filter_map(|(backend, _)| backend.as_ref()?.service()).collect();
            Some(TcpHost { root, section: STREAM, gateway: &seats.gateway, host, services })
        });
        of_routes.chain(of_proxies)
    }

    /// Returns the desired plan of a Gateway; `None` for a Gateway of another controller.
    pub fn gateway(&self, key: &ObjectKey) -> Option<&Arc<GatewayPlan>> {
        self.outcomes.gateways.get(key)
    }

    /// Returns the plan of a Gateway under an overlay, without applying the overlay.
    pub fn try_gateway(&self, key: &ObjectKey, over: &Overlay, objects: &ObjectSnapshot) -> Option<GatewayPlan> {
        match gateway::plan(key, &self.settings, &mut self.reader(Some(over), objects)) {
            Outcome::Served(mut plan) => {
                self.close_listeners(key, &mut plan, over);
                Some(*plan)
            }
            Outcome::NotServed(_) | Outcome::None => None,
        }
    }

    /// Returns the guard settings that the policies of a Gateway currently apply to a host.
    pub fn guards(&self, gateway: &ObjectKey, configuration: &str, domain: &str) -> GatewayGuards {
        let fleet = self.assembly.fleets.get(&FleetId::main(gateway));
        fleet.map(|fleet| fleet.guards(configuration, domain)).unwrap_or_default()
    }

    /// Returns whether the object is a policy that applies to anything served.
    pub fn is_guard(&self, key: &ObjectKey) -> bool {
        let mut readers = self.units.readers(&Input::Outcome(key.clone()));
        let mut governs = || readers.any(|unit| *unit != Unit::Policy(key.clone()));
        (self.outcomes.policies.contains_key(key) && governs()) || self.guards_backends(key)
    }

    /// Returns the plan of a Gateway as served to a fleet.
    pub fn served_gateway(&self, fleet: &FleetId) -> Option<&GatewayPlan> {
        self.assembly.fleets.get(fleet).map(Fleet::plan)
    }

    /// Returns the client certificate that a Gateway should present to backends.
    pub fn identity(&self, gateway: &ObjectKey) -> &ClientIdentity {
        self.outcomes.gateways.get(gateway).map_or(&ClientIdentity::Anonymous, |plan| plan.identity())
    }

    /// Returns the client certificate that a fleet presents to backends.
    pub fn served_identity(&self, fleet: &FleetId) -> &ClientIdentity {
        self.served_gateway(fleet).map_or(&ClientIdentity::Anonymous, GatewayPlan::identity)
    }

    /// Returns the policy settings of a Gateway; `None` where no policy applies.
    pub fn levels(&self, gateway: &ObjectKey) -> Option<&Arc<LevelPlan>> {
        self.policy.levels.get(gateway)
    }

    /// Returns the policy settings of a Gateway as served to a fleet.
    pub fn served_levels(&self, fleet: &FleetId) -> Option<&Arc<LevelPlan>> {
        self.assembly.fleets.get(fleet).map(Fleet::levels)
    }

    /// Returns whether policies of the Gateway or its listeners close every place of a route in a fleet.
    pub fn is_closed_above(&self, fleet: &FleetId, route: &ObjectKey) -> bool {
        let (Some(served), Some(plan)) = (self.assembly.fleets.get(fleet), self.served_route(fleet, route)) else {
            return false;
        };
        let mut places = plan.places.iter().filter(|(gateway, _, _)| *gateway == fleet.gateway).peekable();
        places.peek().is_some() && places.all(|(_, table, host)| served.is_closed(table, host))
    }

    /// Returns the hosts of routes that policies of the Gateway or its listeners close in a fleet.
    pub fn closed_hosts(&self, fleet: &FleetId) -> Vec<ClosedHost<'_>> {
        let served = self.assembly.fleets.get(fleet);
        let Some(served) = served.filter(|served| served.levels().each().any(|(_, level)| level.closed.is_some()))
        else {
            return Vec::new();
        };
        let of = |key| {
            let plan = self.served_route(fleet, key)?;
            let here = || plan.places.iter().filter(|(gateway, _, _)| *gateway == fleet.gateway);
            let is_open = here().any(|(_, table, host)| served.closing(table, host).is_none());
            let closed = here().filter_map(|(_, table, host)| {
                let listener = || match table {
                    TableName::Listener(name) => Some(name.clone()),
                    TableName::Port(_) => served.listener_of(table, host),
                };
                Some(ClosedHost {
                    route: key,
                    listener: is_open.then(listener).flatten(),
                    host: host.domain().into(),
                    policy: &served.closing(table, host)?.0,
                })
            });
            Some(closed.collect::<Vec<_>>())
        };
        self.routes.each().map(|(key, _)| key).filter_map(of).flatten().collect()
    }

    /// Returns the policy fields that apply to a route configuration of a fleet and to its hosts.
    pub fn settings_in_force(&self, fleet: &FleetId, resource: &str) -> BTreeSet<PolicySetting> {
        self.assembly.fleets.get(fleet).map(|fleet| fleet.policy_settings(resource)).unwrap_or_default()
    }

    /// Returns the policy settings of a Gateway under an overlay, without applying the overlay.
    pub fn try_levels(&self, gateway: &ObjectKey, over: &Overlay, objects: &ObjectSnapshot) -> LevelPlan {
        let mut reader = self.reader(Some(over), objects);
        policy::level::plan(gateway, &mut reader)
    }

    /// Returns the routes of a Gateway that the given policy settings close at every place, each with one closing
    /// policy.
    pub fn closed_routes<'l>(&self, gateway: &ObjectKey, levels: &'l LevelPlan) -> Vec<(&ObjectKey, &'l ObjectKey)> {
        let Some(fleet) = self.assembly.fleets.get(&FleetId::main(gateway)) else { return Vec::new() };
        self.routes.each().filter_map(|(key, plan)| Some((key, fleet.closed_by(plan, levels)?))).collect()
    }

    /// Returns the plan of a policy in the given version, without applying this version.
    pub fn try_policy(&self, object: &Arc<Object>, objects: &ObjectSnapshot) -> Option<PolicyPlan> {
        let stand_in = BTreeMap::from([(object.key.clone(), object.clone())]);
        let over = Overlay { objects: stand_in, ..Overlay::default() };
        let mut reader = self.reader(Some(&over), objects);
        guard::guarded(|| policy::plan(&object.key, &self.settings, &mut reader)).flatten()
    }

    /// Returns the plan of a policy under an overlay, without applying the overlay.
    pub fn try_policy_under(&self, key: &ObjectKey, over: &Overlay, objects: &ObjectSnapshot) -> Option<PolicyPlan> {
        let mut reader = self.reader(Some(over), objects);
        guard::guarded(|| policy::plan(key, &self.settings, &mut reader)).flatten()
    }

    /// Returns the report on a backend policy or Backend in the given version, without applying this version.
    pub fn try_backend(&self, object: &Arc<Object>, objects: &ObjectSnapshot) -> Option<BackendPlan> {
        let stand_in = BTreeMap::from([(object.key.clone(), object.clone())]);
        let over = Overlay { objects: stand_in, ..Overlay::default() };
        let mut reader = self.reader(Some(&over), objects);
        guard::guarded(|| backend_policy::plan::plan(&object.key, &mut reader)).flatten()
    }

    /// Returns the policies that read an object in translation: an extension, or a backend that an extension calls.
    pub fn policies_reading(&self, key: &ObjectKey) -> BTreeSet<ObjectKey> {
        let readers = self.units.readers(&Input::Object(key.clone()));
        let policies = readers.filter_map(|unit| match unit {
            Unit::Policy(policy) if policy != key => Some(policy.clone()),
            _ => None,
        });
        policies.collect()
    }

    /// Returns the Backends that cannot be served because of their own content.
    pub fn unusable_backends(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<BackendPlan>)> {
        self.backend_policy
            .plans
            .iter()
            .filter(|(key, plan)| &*key.kind == kinds::BACKEND && plan.unenforceable.is_some())
    }

    /// Returns the unusable Backends that routes of a Gateway use, each with the reason.
    pub fn unusable_backends_of(&self, gateway: &ObjectKey) -> impl Iterator<Item = (&ObjectKey, &str)> {
        let is_used = move |key: &ObjectKey| {
            let plans = self.routes_reading(key).into_iter().filter_map(|route| self.routes.get(&route));
            plans.into_iter().any(|plan| plan.gateways().contains(gateway))
        };
        let unusable = self.backend_policy.plans.iter().filter(|(key, _)| *key.kind == *kinds::BACKEND);
        let unusable = unusable.filter_map(|(key, plan)| Some((key, plan.unenforceable.as_deref()?)));
        unusable.filter(move |(key, _)| is_used(key))
    }

    /// Returns all policies.
    pub fn policies(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<PolicyPlan>)> {
        self.outcomes.policies.iter()
    }

    /// Returns the policies that cannot be enforced, independent of their targets.
    pub fn unenforceable(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<PolicyPlan>)> {
        self.outcomes.policies.iter().filter(|(_, plan)| plan.unenforceable.is_some())
    }

    /// Returns whether a policy applies to a Gateway or to one of its routes.
    pub fn governs(&self, policy: &ObjectKey, gateway: &ObjectKey) -> bool {
        let mut readers = self.units.readers(&Input::Outcome(policy.clone()));
        readers.any(|unit| match unit {
            Unit::Route(key) => {
                let plan = self.routes.get(key).filter(|plan| plan.policies.contains(policy));
                plan.is_some_and(|plan| plan.gateways().contains(gateway))
            }
            Unit::Levels(key) => key == gateway,
            _ => false,
        })
    }

    /// Returns the plan of a policy.
    pub fn policy(&self, key: &ObjectKey) -> Option<&Arc<PolicyPlan>> {
        self.outcomes.policies.get(key)
    }

    /// Returns the routes and Gateways that a policy applies to.
    pub fn governed_by(&self, policy: &ObjectKey) -> (BTreeSet<ObjectKey>, BTreeSet<ObjectKey>) {
        let readers = self.units.readers(&Input::Outcome(policy.clone()));
        let (mut routes, mut gateways) = (BTreeSet::new(), BTreeSet::new());
        for unit in readers {
            match unit {
                Unit::Route(key) if self.routes.get(key).is_some_and(|plan| plan.policies.contains(policy)) => {
                    routes.insert(key.clone());
                }
                Unit::Levels(key) => {
                    gateways.insert(key.clone());
                }
                _ => {}
            }
        }
        (routes, gateways)
    }

    /// Returns the ReferenceGrants of a namespace, without evaluating what they allow.
    pub fn grants_in(&self, namespace: &str) -> impl Iterator<Item = &ObjectKey> {
        self.indexes.grants_in(namespace)
    }

    /// Returns the TLSCertificateDelegations of a namespace, without evaluating what they allow.
    pub fn delegations_in(&self, namespace: &str) -> impl Iterator<Item = &ObjectKey> {
        self.indexes.delegations_in(namespace)
    }

    /// Returns the HTTPProxies that name a host, without deciding which of them owns the host.
    pub fn roots_of_host(&self, fqdn: &str) -> impl Iterator<Item = &ObjectKey> {
        self.indexes.roots_of_host(fqdn)
    }

    /// Returns the ports of a Gateway as its Envoys bind them, desired or served, each once by the port that clients use.
    pub fn ports(&self, gateway: &ObjectKey) -> Vec<Port> {
        let served = self.assembly.fleets_of(gateway);
        let served = served.iter().filter_map(|id| self.assembly.fleets.get(id)).map(Fleet::plan);
        let plans = served.chain(self.outcomes.gateways.get(gateway).map(|plan| &**plan));
        let mut ports = BTreeMap::new();
        for listener in plans.flat_map(GatewayPlan::all).filter(|listener| listener.state != ListenerState::Out) {
            let BoundPort { number: bound, transport } = listener.bound();
            let port = Port { port: listener.seen_port, bound, transport, tls: listener.https };
            ports
                .entry((listener.seen_port, transport))
                .and_modify(|known: &mut Port| known.tls |= port.tls)
                .or_insert(port);
        }
        ports.into_values().collect()
    }
}
