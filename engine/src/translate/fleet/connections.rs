//! What ListenerPolicies say to a Gateway: whom its listeners tell of requests, and against what certificates of clients
//! are checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_graph::{Content, ObjectKey};
use holdfast_xds::Resource;

use super::Fleet;
use crate::encode::{self, chain_parts, names};
use crate::features::remote::Remote;
use crate::translate::listener::Standing;
use crate::translate::policy::connections::Connections;
use crate::translate::policy::said::Said;
use crate::translate::ports;

/// What policies say to one of Envoy's listeners.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ToldListener {
    /// What they say, and that as a content that is refused for itself where it has one.
    pub(crate) said: BTreeMap<Said, Option<Content>>,
    /// What is the chains' own without it, by their names; empty where nothing is said.
    pub(crate) bare: BTreeMap<String, Content>,
}

impl Fleet {
    /// What policies say to the listener of this name.
    pub(in crate::translate) fn told_listener(&self, name: &str) -> ToldListener {
        let mut told = ToldListener::default();
        let connections = &self.levels.connections;
        if *connections == Connections::default() {
            return told;
        }
        let is_meant = |port: u16| names::listener(self.plan.socket(port).port()) == name;
        let listeners = self.plan.all().filter(|listener| listener.standing != Standing::Out);
        let behind = listeners.filter(|listener| is_meant(listener.port));
        let tables: BTreeSet<_> = behind.map(|listener| listener.table()).collect();
        // What is said to a socket is said to each of its tables.
        for connection in tables.iter().filter_map(|table| connections.tables.get(table)) {
            let texts: BTreeMap<_, _> = chain_parts::texts(&connection.settings).into_iter().collect();
            let said = connection.owners.iter();
            told.said.extend(said.map(|(field, said)| (said.clone(), texts.get(field).copied())));
        }
        if !told.said.is_empty() {
            let bare = self.listener_with(name, &Connections::default()).unwrap_or_default();
            told.bare = chain_parts::parts(&bare).into_iter().map(|parts| (parts.name, parts.own)).collect();
        }
        told
    }

    /// The listener of this name, with this said to it.
    pub(in crate::translate) fn listener_with(&self, name: &str, connections: &Connections) -> Option<Bytes> {
        let ports = ports::ports(&self.key, &self.plan, connections, |table| self.filters(table));
        let (port, _) = ports.into_iter().find(|(port, _)| names::listener(port.address.port()) == name)?;
        Some(encode::listener::encode(&port))
    }

    /// Something else is said from now on.
    pub(super) fn connect(&mut self, before: &Connections) {
        self.dirty_listeners = true;
        let (old, new) = (before.remotes(), self.levels.connections.remotes());
        new.difference(&old).for_each(|(remote, policy)| self.use_remote(remote, policy));
        old.difference(&new).for_each(|(remote, policy)| self.release_remote(remote, policy));
    }
}

impl Connections {
    /// Whom listeners tell of requests, and who says so.
    pub(in crate::translate) fn remotes(&self) -> BTreeSet<(Remote, ObjectKey)> {
        let all = self.tables.values().flat_map(|connection| {
            let owners = &connection.owners;
            let parts = connection.settings.parts.iter();
            parts.flat_map(|(field, part)| {
                part.remotes().into_iter().cloned().zip(owners.get(field).map(|said| said.policy().clone()))
            })
        });
        all.collect()
    }

    /// What certificates of clients are checked against.
    pub(in crate::translate) fn trusts(&self) -> impl Iterator<Item = (Arc<str>, Arc<Resource>)> {
        let clients = self.tables.values().filter_map(|connection| connection.settings.clients());
        clients.map(|clients| clients.trust.resource()).map(|resource| (resource.name.clone(), Arc::new(resource)))
    }
}
