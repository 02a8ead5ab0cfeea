//! Policies of Gateways and listeners: what they say to whole route configurations and virtual hosts.
//!
//! On plain ports listeners share a route configuration, and each has hosts of its own in it; a listener with TLS has a
//! route configuration of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{ObjectKey, Origins};

use super::super::listener::{ListenerPlan, Standing};
use super::super::reader::Reader;
use super::super::rule::NOT_ENFORCED;
use super::super::table::TableName;
use super::connections::{self, Connections};
use super::holding::Holding;
use super::said::{self, Said};
use super::{PolicyPlan, Unenforceable};
use crate::fault::Fault;
use crate::features::chain::ChainFilter;
use crate::features::filters::Filters;
use crate::features::guards::Guards;
use crate::features::remote::Remote;
use crate::model::ServicePort;
use crate::policies::action::ActionSettings;
use crate::policies::merge::{Merged, merge};

/// What policies say to a route configuration or to the hosts of a listener.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Level {
    /// To filters.
    pub(crate) filters: Filters,
    /// To those filters that must be in the chain for it.
    pub(crate) guards: Guards,
    /// To each route, where it says nothing itself.
    pub(crate) action: ActionSettings,
    /// The first policy that cannot be enforced, and why: everything is closed.
    pub(crate) closed: Option<(ObjectKey, Unenforceable)>,
    /// The policies that take part, and the Secrets that they were read from.
    pub(crate) origins: Origins,
    /// Who said what.
    pub(crate) merged: Merged,
    /// What those who count say.
    pub(crate) said: BTreeSet<Said>,
    /// The policies that take part.
    pub(crate) keys: Vec<ObjectKey>,
}

impl Level {
    fn says_something(&self) -> bool {
        !self.keys.is_empty() || !self.filters.is_empty() || self.closed.is_some()
    }
}

/// Where a level stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// In a route configuration.
    Table(TableName),
    /// In the hosts of a plain listener.
    Listener(Arc<str>),
}

/// What policies say to a Gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LevelPlan {
    /// To route configurations.
    pub(crate) tables: BTreeMap<TableName, Arc<Level>>,
    /// To the hosts of plain listeners, by the listener's name.
    pub(crate) listeners: BTreeMap<Arc<str>, Arc<Level>>,
    /// To connection managers and sockets.
    pub(crate) connections: Connections,
    /// What each policy is attached to: the Gateway, or a ListenerSet that joined it.
    pub(crate) owners: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// What is told of closed listeners.
    pub(crate) faults: Vec<Fault>,
}

/// A listener that a policy closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClosedListener {
    /// What is closed: `routeConfiguration` or `virtualHost`.
    pub(crate) scope: &'static str,
    /// The policy.
    pub(crate) policy: ObjectKey,
    /// Why.
    pub(crate) why: Unenforceable,
}

impl LevelPlan {
    /// What closes a listener.
    pub(crate) fn closing(&self, listener: &ListenerPlan) -> Option<ClosedListener> {
        let of = |scope: &'static str, level: Option<&Arc<Level>>| {
            let (policy, why) = level?.closed.clone()?;
            Some(ClosedListener { scope, policy, why })
        };
        of("routeConfiguration", self.tables.get(&listener.table()))
            .or_else(|| of("virtualHost", self.listeners.get(&listener.name)))
    }

    /// Every level, and where it stands.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Scope, &Arc<Level>)> {
        let tables = self.tables.iter().map(|(name, level)| (Scope::Table(name.clone()), level));
        tables.chain(self.listeners.iter().map(|(name, level)| (Scope::Listener(name.clone()), level)))
    }

    /// The level at a place.
    pub(crate) fn at(&self, scope: &Scope) -> Option<&Arc<Level>> {
        match scope {
            Scope::Table(name) => self.tables.get(name),
            Scope::Listener(name) => self.listeners.get(name),
        }
    }

    /// Whom the filters ask that it needs, and whom its listeners tell of requests.
    pub(crate) fn remotes(&self) -> BTreeSet<Remote> {
        let filters: Vec<ChainFilter> = self.each().flat_map(|(_, level)| level.guards.filters()).collect();
        let told = self.connections.remotes().into_iter().map(|(remote, _)| remote);
        filters.iter().flat_map(ChainFilter::remotes).cloned().chain(told).collect()
    }

    /// The ports of Services whose endpoints it needs.
    pub(crate) fn services(&self) -> BTreeSet<ServicePort> {
        self.remotes().iter().flat_map(Remote::services).cloned().collect()
    }

    /// The certificates that those are shown.
    pub(crate) fn shown(&self) -> BTreeSet<ObjectKey> {
        let remotes = self.remotes();
        let backends = remotes.iter().filter_map(|remote| match remote {
            Remote::Backend(backend) => backend.client(),
            Remote::Group(_) | Remote::Host(_) => None,
        });
        backends.cloned().collect()
    }
}

/// Works out what policies say to a Gateway.
pub(in crate::translate) fn plan(key: &ObjectKey, reader: &mut Reader<'_>) -> LevelPlan {
    let mut levels = LevelPlan::default();
    let Some(gateway) = reader.plan(key) else { return levels };
    let Some(holding) = Holding::read(key, gateway, reader).filter(|holding| !holding.is_empty()) else {
        return levels;
    };
    let whole = || holding.whole();
    for listener in gateway.listeners.iter().filter(|listener| listener.standing != Standing::Out) {
        let own = || holding.of(listener);
        let port = listener.declared_port;
        if listener.https {
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
    for listener in gateway.listeners.iter().filter(|listener| listener.standing != Standing::Out) {
        let of_table = levels.tables.get(&listener.table());
        let own = levels.listeners.get(&listener.name);
        let Some((policy, why)) = of_table.into_iter().chain(own).find_map(|level| level.closed.as_ref()) else {
            continue;
        };
        let message = format!("{} {}: {}", policy.kind, policy.namespaced_name(), why.message);
        let owner = listener.owner(key);
        levels.faults.push(Fault::new(owner, why.class, &listener.field, NOT_ENFORCED, message));
    }
    levels.owners = holding.owners(key);
    levels.tables.retain(|_, level| level.says_something());
    levels.listeners.retain(|_, level| level.says_something());
    levels
}

/// Merges policies as they speak to a port, as it is written.
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
    let said = said::in_scope(&merged.origins, plan);
    let keys = all.iter().map(|(key, _)| (*key).clone()).collect();
    let (filters, guards, action) = (merged.filters(), merged.guards(), merged.action());
    Level { filters, guards, action, closed, origins, said, merged, keys }
}
