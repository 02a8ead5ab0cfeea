//! What ListenerPolicies say to a Gateway: whom its listeners tell of requests, and against what certificates of clients
//! are checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_graph::ObjectKey;
use holdfast_xds::Resource;

use super::Fleet;
use crate::features::remote::Remote;
use crate::translate::policy::connections::Connections;

impl Fleet {
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
            parts.flat_map(|(field, part)| part.remotes().into_iter().cloned().zip(owners.get(field).cloned()))
        });
        all.collect()
    }

    /// What certificates of clients are checked against.
    pub(in crate::translate) fn trusts(&self) -> impl Iterator<Item = (Arc<str>, Arc<Resource>)> {
        let clients = self.tables.values().filter_map(|connection| connection.settings.clients());
        clients.map(|clients| clients.trust.resource()).map(|resource| (resource.name.clone(), Arc::new(resource)))
    }
}
