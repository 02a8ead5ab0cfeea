//! Filter chains and their units: the unit that owns each filter chain, the desired content of the chain, and the
//! faults because of which a listener serves no request.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_api::fault::Fault;
use holdfast_api::section;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_envoy::encode;
use holdfast_envoy::encode::names;
use holdfast_envoy::inspect::chain_parts;
use holdfast_envoy::model::port::BoundPort;
use holdfast_envoy::model::table::Host;
use holdfast_graph::{Content, Node, ObjectKey};

use crate::Translator;
use crate::assembly::fleet::FleetId;
use crate::assembly::fleet::connections::ListenerPolicySettings;
use crate::assembly::ports;
use crate::outcome::gateway::GatewayPlan;
use crate::outcome::listener::{ListenerPlan, ListenerState};
use crate::overlay::Overlay;
use crate::policy::connections::Connections;

/// The field of an HTTPProxy with the TLS settings of its host.
const TLS_OF_HOST: &str = "spec.virtualhost.tls";

/// A listener that serves no request.
#[derive(Clone, Debug)]
pub struct UnservedListener {
    /// The bound port.
    pub port: BoundPort,
    /// The hosts of the listener.
    pub host: Host,
    /// Whether the listener uses TLS.
    pub tls: bool,
    /// The name of the filter chain that refuses its connections; a listener that takes no part has no chain.
    pub chain: String,
    /// The faults that are the reason.
    pub faults: Vec<Fault>,
}

impl Translator {
    /// Returns the unit that owns the filter chain of a listener. The plain HTTP port of HTTPProxies has no owner.
    fn unit_of(&self, gateway: &ObjectKey, listener: &ListenerPlan) -> Option<Node> {
        // A listener that is written in a Gateway or ListenerSet has a field path there.
        if !listener.field.is_empty() {
            return Some(listener.unit(gateway));
        }
        let host = listener.hostname.as_ref().filter(|_| listener.https)?;
        let roots = self.outcomes.hosts.iter().filter(|(_, claim)| claim.tls.is_some());
        let mut roots = roots.filter(|(_, claim)| claim.host.as_ref().is_some_and(|own| *own.domain() == **host));
        roots.next().map(|(root, _)| Node::section(root.clone(), section::HOST))
    }

    /// Returns the units of a Gateway's filter chains by chain name, for serving chains and refusing chains.
    pub fn chain_units(&self, gateway: &ObjectKey) -> BTreeMap<String, Node> {
        let Some(plan) = self.outcomes.gateways.get(gateway) else { return BTreeMap::new() };
        let fleets = self.assembly.fleets_of(gateway);
        let fleets: Vec<_> = fleets.iter().filter_map(|id| self.assembly.fleets.get(id)).collect();
        let mut units = BTreeMap::new();
        for listener in plan.all().filter(|listener| listener.state != ListenerState::Out) {
            units.extend(fleets.iter().flat_map(|fleet| fleet.stream_units(listener)));
            if let Some(unit) = self.unit_of(gateway, listener) {
                units.entry(names::route_configuration(&listener.table())).or_insert_with(|| unit.clone());
                units.entry(names::stream(&listener.name)).or_insert_with(|| unit.clone());
                units.entry(names::refusal(&listener.name)).or_insert(unit);
            }
        }
        units
    }

    /// Returns the desired listeners of a Gateway that serve no request. `faults`: all faults.
    pub fn unserved_listeners(&self, gateway: &ObjectKey, faults: &[Fault]) -> Vec<UnservedListener> {
        let Some(plan) = self.outcomes.gateways.get(gateway) else { return Vec::new() };
        let closed = plan.all().filter(|listener| listener.state != ListenerState::Serving);
        let closed = closed.filter_map(|listener| {
            let (object, field) = self.written(gateway, listener)?;
            let is_own = |fault: &&Fault| fault.is_error() && fault.object == object && is_within(&fault.field, field);
            let faults = faults.iter().filter(is_own).cloned().collect();
            let (host, chain) = (listener.host(), names::refusal(&listener.name));
            Some(UnservedListener { port: listener.bound(), host, tls: listener.https, chain, faults })
        });
        closed.chain(self.closed_streams(gateway, plan, faults)).collect()
    }

    /// Returns the hosts of served listeners of which the routes close connections, each as a listener of its own.
    fn closed_streams(&self, gateway: &ObjectKey, plan: &GatewayPlan, faults: &[Fault]) -> Vec<UnservedListener> {
        let fleet = self.assembly.fleets.get(&FleetId::main(gateway));
        let serving = plan.listeners.iter().filter(|listener| listener.state == ListenerState::Serving);
        let hosts = serving.flat_map(|listener| {
            let routes = fleet.and_then(|fleet| fleet.streams_at(listener)).into_iter().flatten();
            let first = routes.filter_map(|(host, ranked)| Some((host, ranked.values().next()?)));
            first.map(move |(host, route)| (listener, host, route))
        });
        let closed = hosts.filter(|(listener, _, route)| route.to(listener.traffic).is_none());
        let closed = closed.map(|(listener, host, route)| {
            let field = section::field(&route.node.section);
            let is_own = |fault: &&Fault| fault.object == route.node.key && is_within(&fault.field, &field);
            UnservedListener {
                port: listener.bound(),
                host: host.clone(),
                tls: listener.https,
                chain: names::refusal(&names::server(&listener.name, host)),
                faults: faults.iter().filter(is_own).cloned().collect(),
            }
        });
        closed.collect()
    }

    /// Returns the object and the field in which a listener is written.
    fn written<'l>(&self, gateway: &ObjectKey, listener: &'l ListenerPlan) -> Option<(ObjectKey, &'l str)> {
        match &*listener.field {
            "" => Some((self.unit_of(gateway, listener)?.key, TLS_OF_HOST)),
            field => Some((listener.unit(gateway).key, field)),
        }
    }

    /// Returns the desired filter chains of a Gateway, each with the unit that owns it. Where a certificate is
    /// unusable, the result also contains the chain with the earlier version of the certificate.
    pub fn chains(&self, gateway: &ObjectKey) -> Vec<(Content, Node)> {
        let Some(plan) = self.outcomes.gateways.get(gateway) else { return Vec::new() };
        let mut contents = self.chains_of(gateway, plan);
        contents.extend(Self::with_earlier_certificates(plan).iter().flat_map(|plan| self.chains_of(gateway, plan)));
        contents.dedup();
        contents
    }

    fn chains_of(&self, gateway: &ObjectKey, plan: &GatewayPlan) -> Vec<(Content, Node)> {
        let Some(fleet) = self.assembly.fleets.get(&FleetId::main(gateway)) else { return Vec::new() };
        let mut chains = BTreeMap::new();
        // The content of a chain itself does not depend on the filters that routes require.
        let connections = self.connections(gateway);
        for (port, _) in ports::ports(gateway, plan, &connections, |_| Vec::new(), fleet) {
            let parts = chain_parts::parts(&encode::listener::encode(&port));
            chains.extend(parts.into_iter().map(|parts| (parts.name, parts.placed)));
        }
        let serving = plan.all().filter(|listener| listener.state == ListenerState::Serving);
        let of_streams = serving.clone().flat_map(|listener| fleet.stream_units(listener));
        let of_streams = of_streams.filter_map(|(name, unit)| Some((*chains.get(&name)?, unit)));
        let contents = serving.filter_map(|listener| {
            let http = chains.get(&names::route_configuration(&listener.table()));
            let content = http.or_else(|| chains.get(&names::stream(&listener.name)))?;
            Some((*content, self.unit_of(gateway, listener)?))
        });
        contents.chain(of_streams).collect()
    }

    /// Returns the plan of a Gateway with the earlier versions of its unusable certificates; `None` where all are
    /// usable.
    fn with_earlier_certificates(plan: &GatewayPlan) -> Option<GatewayPlan> {
        let earlier: Vec<_> = plan.listeners.iter().map(ListenerPlan::with_earlier_certificates).collect();
        earlier.iter().any(Option::is_some).then(|| {
            let listeners = plan.listeners.iter().zip(earlier);
            let listeners = listeners.map(|(today, earlier)| earlier.unwrap_or_else(|| today.clone())).collect();
            GatewayPlan { listeners, ..plan.clone() }
        })
    }

    /// Returns the settings that ListenerPolicies apply to a Gateway.
    fn connections(&self, gateway: &ObjectKey) -> Connections {
        self.policy.levels.get(gateway).map(|levels| levels.connections.clone()).unwrap_or_default()
    }

    /// Returns the policy settings of a listener of a fleet.
    pub fn listener_policy_settings(&self, fleet: &FleetId, name: &str) -> ListenerPolicySettings {
        self.assembly.fleets.get(fleet).map(|fleet| fleet.listener_policy_settings(name)).unwrap_or_default()
    }

    /// Returns the bytes of a listener of a fleet under an overlay of policies, without applying the overlay.
    pub fn try_listener(&self, fleet: &FleetId, name: &str, over: &Overlay, objects: &ObjectSnapshot) -> Option<Bytes> {
        let levels = self.try_levels(&fleet.gateway, over, objects);
        self.assembly.fleets.get(fleet)?.listener_with(name, &levels.connections)
    }

    /// Returns the listeners that an overlay closes, by name, each with the reason.
    pub fn refused_listeners(&self, gateway: &ObjectKey, overlay: &Overlay) -> BTreeMap<Arc<str>, Arc<str>> {
        let plan = self.outcomes.gateways.get(gateway).filter(|_| !overlay.closed.is_empty());
        let listeners = plan.iter().flat_map(|plan| plan.all());
        // A listener that is closed as desired may be served with an earlier version of its certificate.
        let placed = listeners.filter(|listener| listener.has_place());
        let refused = placed.filter_map(|listener| {
            let unit = self.unit_of(gateway, listener)?;
            let closing = overlay.closed.get(&unit.key)?.get(&unit.section)?;
            Some((listener.name.clone(), closing.message.clone()))
        });
        refused.collect()
    }

    /// Closes the listeners of a plan that an overlay closes.
    pub(crate) fn close_listeners(&self, gateway: &ObjectKey, plan: &mut GatewayPlan, overlay: &Overlay) {
        let refused = self.refused_listeners(gateway, overlay);
        for listener in plan
            .listeners
            .iter_mut()
            .chain(&mut plan.proxies)
            .filter(|listener| listener.state == ListenerState::Serving)
        {
            if let Some(message) = refused.get(&listener.name) {
                listener.reject(ListenerState::Refused, "Invalid", message);
            }
        }
    }
}

/// Returns whether a field is this one or below it.
fn is_within(field: &str, outer: &str) -> bool {
    field.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
