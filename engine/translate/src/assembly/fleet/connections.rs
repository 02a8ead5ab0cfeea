//! ListenerPolicy settings of a Gateway: services for access logs and traces, and the validation of client
//! certificates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_envoy::encode::{self, names};
use holdfast_envoy::features::remote::Remote;
use holdfast_envoy::inspect::chain_parts;
use holdfast_envoy::model::table::TableName;
use holdfast_graph::{Content, ObjectKey};
use holdfast_xds::Resource;

use super::Fleet;
use crate::assembly::ports;
use crate::outcome::listener::ListenerState;
use crate::outcome::setting::PolicySetting;
use crate::policy::connections::Connections;

/// Policy settings of one Envoy listener.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListenerPolicySettings {
    /// The policy fields, each with its content if Envoy can refuse the field by itself.
    pub settings: BTreeMap<PolicySetting, Option<Content>>,
    /// The contents of the filter chains without these settings, by chain name; empty where no policy applies.
    pub bare: BTreeMap<String, Content>,
}

impl Fleet {
    /// Returns the policy settings of the named listener.
    pub(crate) fn listener_policy_settings(&self, name: &str) -> ListenerPolicySettings {
        let mut policy_settings = ListenerPolicySettings::default();
        let connections = &self.levels.connections;
        if *connections == Connections::default() {
            return policy_settings;
        }
        let listeners = self.plan.all().filter(|listener| listener.state != ListenerState::Out);
        let behind = listeners.filter(|listener| names::listener(listener.bound()) == name);
        let tables: BTreeSet<_> = behind.map(|listener| listener.table()).collect();
        // Settings of a socket apply to each of its tables.
        for connection in tables.iter().filter_map(|table| connections.tables.get(table)) {
            let texts: BTreeMap<_, _> = chain_parts::texts(&connection.settings).into_iter().collect();
            let owners = connection.owners.iter();
            policy_settings
                .settings
                .extend(owners.map(|(field, setting)| (setting.clone(), texts.get(field).copied())));
        }
        if !policy_settings.settings.is_empty() {
            let bare = self.listener_with(name, &Connections::default()).unwrap_or_default();
            policy_settings.bare = chain_parts::parts(&bare).into_iter().map(|parts| (parts.name, parts.own)).collect();
        }
        policy_settings
    }

    /// Returns the bytes of the named listener with the given connection settings.
    pub(crate) fn listener_with(&self, name: &str, connections: &Connections) -> Option<Bytes> {
        let ports = ports::ports(&self.key, &self.plan, connections, |table| self.filters(table), self);
        let (port, _) = ports.into_iter().find(|(port, _)| names::listener(port.bound()) == name)?;
        Some(encode::listener::encode(&port))
    }

    /// Applies changed connection settings.
    pub(super) fn connect(&mut self, before: &Connections) {
        self.dirty_listeners = true;
        let (old, new) = (before.remotes(), self.levels.connections.remotes());
        new.difference(&old).for_each(|(remote, policy)| self.use_remote(remote, policy));
        old.difference(&new).for_each(|(remote, policy)| self.release_remote(remote, policy));
    }
}

impl Connections {
    /// Returns the services for access logs and traces of the listeners, each with the policy that names it.
    pub(crate) fn remotes(&self) -> BTreeSet<(Remote, ObjectKey)> {
        let all = self.tables.values().flat_map(|connection| {
            let owners = &connection.owners;
            let parts = connection.settings.parts.iter();
            parts.flat_map(|(field, part)| {
                part.remotes().into_iter().cloned().zip(owners.get(field).map(|setting| setting.policy().clone()))
            })
        });
        all.collect()
    }

    /// Returns the validation contexts of client certificates, except those of the tables that do not use them.
    pub(crate) fn trusts(&self, without: &BTreeSet<TableName>) -> impl Iterator<Item = (Arc<str>, Arc<Resource>)> {
        let with = self.tables.iter().filter(|(table, _)| !without.contains(*table));
        let clients = with.filter_map(|(_, connection)| connection.settings.clients());
        clients.map(|clients| clients.trust.resource()).map(|resource| (resource.name.clone(), Arc::new(resource)))
    }
}
