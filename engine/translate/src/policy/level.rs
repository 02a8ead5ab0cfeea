//! Policies of Gateways and listeners: settings of whole route configurations and virtual hosts.
//!
//! On plain ports, listeners share a route configuration, and each listener has separate hosts in it; a listener with
//! TLS has a separate route configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::fault::Fault;
use holdfast_envoy::features::chain::ChainFilter;
use holdfast_envoy::features::filters::Filters;
use holdfast_envoy::features::guards::Guards;
use holdfast_envoy::features::remote::Remote;
use holdfast_envoy::model::ServicePort;
use holdfast_envoy::model::table::TableName;
use holdfast_graph::{ObjectKey, Origins};

use super::connections::{self, Connections};
use super::holding::Holding;
use crate::outcome::gateway::GatewayPlan;
use crate::outcome::listener::{ListenerPlan, ListenerState};
use crate::outcome::policy::{PolicyPlan, Unenforceable};
use crate::outcome::setting::{self, PolicySetting};
use crate::precedence::NOT_ENFORCED;
use crate::precedence::action::ActionSettings;
use crate::precedence::merge::{Merged, merge};
use crate::reader::Reader;

/// Settings of policies for a route configuration or for the hosts of a listener.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Level {
    /// Settings of filters.
    pub filters: Filters,
    /// Guards: settings that need a filter in the chain.
    pub guards: Guards,
    /// Defaults for the forwarding of requests of each route.
    pub action: ActionSettings,
    /// The first policy that cannot be enforced, with the reason: everything is closed.
    pub closed: Option<(ObjectKey, Unenforceable)>,
    /// The policies that take part, and the Secrets that they were read from.
    pub origins: Origins,
    /// Merged settings, with their policies.
    pub merged: Merged,
    /// Effective settings of the policies.
    pub policy_settings: BTreeSet<PolicySetting>,
    /// The policies that take part.
    pub keys: Vec<ObjectKey>,
}

impl Level {
    fn is_effective(&self) -> bool {
        !self.keys.is_empty() || !self.filters.is_empty() || self.closed.is_some()
    }
}

/// Scope of a level.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// A route configuration.
    Table(TableName),
    /// The hosts of a plain listener.
    Listener(Arc<str>),
}

/// Settings of policies for a Gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LevelPlan {
    /// Settings of route configurations.
    pub tables: BTreeMap<TableName, Arc<Level>>,
    /// Settings of the hosts of plain listeners, by the listener's name.
    pub listeners: BTreeMap<Arc<str>, Arc<Level>>,
    /// Settings of connection managers and sockets.
    pub connections: Connections,
    /// Objects that each policy is attached to: the Gateway, or a ListenerSet that joined it.
    pub owners: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Faults of closed listeners.
    pub faults: Vec<Fault>,
}

/// A listener that a policy closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedListener {
    /// Scope of the closing: `routeConfiguration` or `virtualHost`.
    pub scope: &'static str,
    /// The policy.
    pub policy: ObjectKey,
    /// The reason.
    pub why: Unenforceable,
}

impl LevelPlan {
    /// Returns the reason why a listener is closed.
    pub fn closing(&self, listener: &ListenerPlan) -> Option<ClosedListener> {
        let of = |scope: &'static str, level: Option<&Arc<Level>>| {
            let (policy, why) = level?.closed.clone()?;
            Some(ClosedListener { scope, policy, why })
        };
        of("routeConfiguration", self.tables.get(&listener.table()))
            .or_else(|| of("virtualHost", self.listeners.get(&listener.name)))
    }

    /// Returns every level with its scope.
    pub fn each(&self) -> impl Iterator<Item = (Scope, &Arc<Level>)> {
        let tables = self.tables.iter().map(|(name, level)| (Scope::Table(name.clone()), level));
        tables.chain(self.listeners.iter().map(|(name, level)| (Scope::Listener(name.clone()), level)))
    }

    /// Returns the level of a scope.
    pub fn at(&self, scope: &Scope) -> Option<&Arc<Level>> {
        match scope {
            Scope::Table(name) => self.tables.get(name),
            Scope::Listener(name) => self.listeners.get(name),
        }
    }

    /// Returns the external services of the required filters and of the access logs and tracing of listeners.
    pub fn remotes(&self) -> BTreeSet<Remote> {
        let filters: Vec<ChainFilter> = self.each().flat_map(|(_, level)| level.guards.filters()).collect();
        let of_connections = self.connections.remotes().into_iter().map(|(remote, _)| remote);
        filters.iter().flat_map(ChainFilter::remotes).cloned().chain(of_connections).collect()
    }

    /// Returns the ports of Services with endpoints that are required.
    pub fn services(&self) -> BTreeSet<ServicePort> {
        self.remotes().iter().flat_map(Remote::services).cloned().collect()
    }

    /// Returns the client certificates that Envoy presents to these services.
    pub fn shown(&self) -> BTreeSet<ObjectKey> {
        self.remotes().iter().filter_map(Remote::client).cloned().collect()
    }
}

/// Computes the settings of policies for a Gateway, and those of the validation of client certificates that the Gateway
/// requires.
pub(crate) fn plan(key: &ObjectKey, reader: &mut Reader<'_>) -> LevelPlan {
    let mut levels = LevelPlan::default();
    let Some(gateway) = reader.outcome::<GatewayPlan>(key) else { return levels };
    let validates = gateway.listeners.iter().any(|listener| listener.clients.is_some());
    let holding = Holding::read(key, gateway, reader).filter(|holding| validates || !holding.is_empty());
    let Some(holding) = holding else { return levels };
    let whole = || holding.whole();
    for listener in gateway.listeners.iter().filter(|listener| listener.state != ListenerState::Out) {
        let own = || holding.of(listener);
        let port = listener.declared_port;
        if listener.forwards() {
            // TrafficPolicies are about requests.
            let of_connections = own().chain(whole()).filter(|(policy, _)| *policy.kind == *kinds::LISTENER_POLICY);
            levels.tables.insert(listener.table(), Arc::new(level(of_connections, port)));
        } else if listener.https {
            levels.tables.insert(listener.table(), Arc::new(level(own().chain(whole()), port)));
        } else {
            levels.tables.entry(listener.table()).or_insert_with(|| Arc::new(level(whole(), port)));
            levels.listeners.insert(listener.name.clone(), Arc::new(level(own(), port)));
        }
    }
    connections::plan(
        key,
        gateway,
        |listener: &ListenerPlan| holding.of(listener).collect(),
        &whole().collect(),
        &mut levels,
    );
    for listener in gateway.listeners.iter().filter(|listener| listener.state != ListenerState::Out) {
        let of_table = levels.tables.get(&listener.table());
        let own = levels.listeners.get(&listener.name);
        let Some((policy, why)) = of_table.into_iter().chain(own).find_map(|level| level.closed.as_ref()) else {
            continue;
        };
        let message = format!("{} {}: {}", policy.kind, policy.namespaced_name(), why.message);
        let owner = listener.owner(key);
        let fault = Fault::new(owner, why.class, &listener.field, NOT_ENFORCED, message);
        levels.faults.push(fault.caused_by(Some(policy.clone())));
    }
    levels.owners = holding.owners(key);
    levels.tables.retain(|_, level| level.is_effective());
    levels.listeners.retain(|_, level| level.is_effective());
    levels
}

/// Merges the settings of policies for a declared port.
fn level<'p>(policies: impl Iterator<Item = (&'p ObjectKey, &'p Arc<PolicyPlan>)>, port: i32) -> Level {
    let mut all: Vec<(&ObjectKey, &Arc<PolicyPlan>)> = Vec::new();
    for (key, plan) in policies {
        if !all.iter().any(|(known, _)| *known == key) {
            all.push((key, plan));
        }
    }
    let closed = all.iter().find_map(|(key, plan)| Some(((*key).clone(), plan.unenforceable.clone()?)));
    let enforceable = all.iter().filter(|(_, plan)| plan.unenforceable.is_none());
    let merged = merge(enforceable.map(|(key, plan)| (*key, &***plan.settings_at(port))));
    let secrets = all.iter().flat_map(|(_, plan)| plan.secrets.iter().cloned());
    let origins = secrets.chain(all.iter().map(|(key, _)| (*key).clone())).collect();
    let plan = |wanted: &ObjectKey| all.iter().find(|(key, _)| *key == wanted).map(|(_, plan)| plan.settings_at(port));
    let policy_settings = setting::in_scope(&merged.origins, plan);
    let keys = all.iter().map(|(key, _)| (*key).clone()).collect();
    let (filters, guards, action) = (merged.filters(), merged.guards(), merged.action());
    Level { filters, guards, action, closed, origins, policy_settings, merged, keys }
}
