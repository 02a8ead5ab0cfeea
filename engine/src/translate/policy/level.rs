//! Policies of Gateways and listeners: what they say to whole route configurations and virtual hosts.
//!
//! On plain ports listeners share a route configuration, and each has hosts of its own in it; a listener with TLS has a
//! route configuration of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_graph::{ObjectKey, Origins, Role};

use super::super::listener::{ListenerPlan, Standing};
use super::super::reader::Reader;
use super::super::rule::NOT_ENFORCED;
use super::super::table::TableName;
use super::connections::{self, Connections};
use super::{PolicyPlan, Unenforceable};
use crate::fault::{Class, Fault};
use crate::features::filters::Filters;
use crate::policies::action::ActionSettings;
use crate::policies::attachment::Section;
use crate::policies::merge::{Merged, merge};
use crate::policies::settings::{EXT_PROC, Field, OAUTH2};

/// Fields that need filters of their own in the chain, which routes ask for.
const ASKING: [Field; 5] = ["extAuth", "jwtAuth", "rateLimit.global", EXT_PROC, OAUTH2];

/// What policies say to a route configuration or to the hosts of a listener.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Level {
    /// To filters.
    pub(crate) filters: Filters,
    /// To each route, where it says nothing itself.
    pub(crate) action: ActionSettings,
    /// The first policy that cannot be enforced, and why: everything is closed.
    pub(crate) closed: Option<(ObjectKey, Unenforceable)>,
    /// The policies that take part, and the Secrets that they were read from.
    pub(crate) origins: Origins,
    /// Who said what.
    pub(crate) merged: Merged,
    /// The policies that take part.
    pub(crate) keys: Vec<ObjectKey>,
}

impl Level {
    fn says_something(&self) -> bool {
        !self.keys.is_empty() || !self.filters.is_empty() || self.closed.is_some()
    }
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
    /// What is told of closed listeners.
    pub(crate) faults: Vec<Fault>,
}

/// Works out what policies say to a Gateway.
pub(in crate::translate) fn plan(key: &ObjectKey, reader: &mut Reader<'_>) -> LevelPlan {
    let mut levels = LevelPlan::default();
    let Some(gateway) = reader.plan(key) else { return levels };
    let Some(object) = reader.object(key) else { return levels };
    let attached = reader.policies_at(key, &object.metadata.labels);
    if attached.is_empty() {
        return levels;
    }
    for (policy, _, section) in &attached {
        let from = match section {
            Section::Whole => String::new(),
            Section::Named(name) => format!("listeners[{name}]"),
        };
        reader.edge(key, from, policy, Role::Modifies);
    }
    let at = |wanted: Section| {
        attached.iter().filter(move |(_, _, section)| *section == wanted).map(|(key, plan, _)| (key, *plan))
    };
    let whole = || at(Section::Whole);
    for listener in gateway.listeners.iter().filter(|listener| listener.standing != Standing::Out) {
        let own = || at(Section::Named(listener.name.clone()));
        let port = listener.declared_port;
        if listener.https {
            levels.tables.insert(listener.table(), Arc::new(level(own().chain(whole()), port)));
        } else {
            levels.tables.entry(listener.table()).or_insert_with(|| Arc::new(level(whole(), port)));
            levels.listeners.insert(listener.name.clone(), Arc::new(level(own(), port)));
        }
    }
    let own = |listener: &ListenerPlan| at(Section::Named(listener.name.clone())).collect();
    connections::plan(key, gateway, own, &whole().collect(), &mut levels);
    for listener in gateway.listeners.iter().filter(|listener| listener.standing != Standing::Out) {
        let of_table = levels.tables.get(&listener.table());
        let own = levels.listeners.get(&listener.name);
        let Some((policy, why)) = of_table.into_iter().chain(own).find_map(|level| level.closed.as_ref()) else {
            continue;
        };
        let message = format!("{} {}: {}", policy.kind, policy.namespaced_name(), why.message);
        levels.faults.push(Fault::new(key, why.class, &listener.field, NOT_ENFORCED, message));
    }
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
    let merged = merge(enforceable.map(|(key, plan)| (*key, &**plan.settings_at(port))));
    let closed = closed.or_else(|| {
        let asks =
            |(_, plan): &&(&ObjectKey, &Arc<PolicyPlan>)| plan.settings.keys().any(|field| ASKING.contains(field));
        let (key, plan) = all.iter().find(asks)?;
        let field = plan.settings.keys().find(|field| ASKING.contains(field))?;
        let message = format!("spec.{field}: can be served for routes only by this version of Holdfast");
        Some(((*key).clone(), Unenforceable { class: Class::Invalid, message: message.into() }))
    });
    let secrets = all.iter().flat_map(|(_, plan)| plan.secrets.iter().cloned());
    let origins = secrets.chain(all.iter().map(|(key, _)| (*key).clone())).collect();
    let keys = all.iter().map(|(key, _)| (*key).clone()).collect();
    Level { filters: merged.filters(), action: merged.action(), closed, origins, merged, keys }
}
