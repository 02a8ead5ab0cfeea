//! External services that the filters of a Gateway's chains call: their clusters, which exist as long as a route needs
//! them, and the filters.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use holdfast_envoy::encode::{self, names};
use holdfast_envoy::features::chain::{self, ChainFilter};
use holdfast_envoy::features::remote::{Group, Remote};
use holdfast_envoy::model::ServicePort;
use holdfast_envoy::model::table::TableName;
use holdfast_graph::{ObjectKey, Origins};
use holdfast_xds::{Resource, ResourceType};

use super::{Fleet, released};
use crate::policy::level::Scope;

impl Fleet {
    pub(super) fn use_remote(&mut self, remote: &Remote, route: &ObjectKey) {
        if let Remote::Backend(backend) = remote {
            return self.use_backend(backend);
        }
        let users = self.remotes.entry(remote.clone()).or_default();
        let first = users.is_empty();
        users.insert(route.clone());
        self.put_remote(remote);
        if first {
            remote.services().into_iter().for_each(|service| self.use_service(service));
            remote.client().into_iter().for_each(|client| *self.shown.entry(client.clone()).or_insert(0) += 1);
        }
    }

    pub(super) fn release_remote(&mut self, remote: &Remote, route: &ObjectKey) {
        if let Remote::Backend(backend) = remote {
            return self.release_backend(backend);
        }
        let Some(users) = self.remotes.get_mut(remote) else { return };
        users.remove(route);
        if !users.is_empty() {
            return self.put_remote(remote);
        }
        self.remotes.remove(remote);
        // The cluster of a changed object keeps its name.
        let name = names::remote(remote);
        let other = self.remotes.keys().find(|other| names::remote(other) == name);
        if let Some(other) = other.cloned() {
            self.put_remote(&other);
        } else {
            self.snapshot.remove(ResourceType::Cluster, &name);
            if let Remote::Group(group) = remote {
                self.snapshot.remove(ResourceType::Endpoints, &names::group(&group.owner));
            }
        }
        if let Some(client) = remote.client() {
            released(&mut self.shown, client);
        }
        for service in remote.services() {
            if released(&mut self.services, service) {
                self.snapshot.remove(ResourceType::Endpoints, &names::endpoints(service));
            }
        }
        self.changed = true;
    }

    pub(super) fn put_remote(&mut self, remote: &Remote) {
        let identity = self.plan.identity();
        let mut origins: Origins = remote.origins().into_iter().chain(identity.origin(remote.tls())).cloned().collect();
        // An external host is not an object; its origins are the objects that use it.
        if matches!(remote, Remote::Host(_)) {
            let users: Origins = self.remotes.get(remote).into_iter().flatten().cloned().collect();
            origins = Origins::union([&origins, &users]);
        }
        let resource = Resource::new(names::remote(remote), encode::cluster::remote(remote, identity), origins);
        self.put(ResourceType::Cluster, Arc::new(resource));
    }

    /// Updates the endpoints of groups with several Services.
    pub(super) fn finish_groups(&mut self, endpoints: &HashMap<ServicePort, Arc<Resource>>) {
        let groups: Vec<Arc<Group>> = self.remotes.keys().filter_map(several).cloned().collect();
        for group in groups {
            let known = group.services.iter();
            let known: Vec<(u32, &Arc<Resource>)> =
                known.filter_map(|(service, weight)| Some((*weight, endpoints.get(service)?))).collect();
            let name = names::group(&group.owner);
            let body =
                encode::endpoints::together(name.clone(), known.iter().map(|(weight, part)| (*weight, &part.body)));
            let origins = Origins::union(known.iter().map(|(_, part)| &part.origins)).with(group.owner.clone());
            self.put(ResourceType::Endpoints, Arc::new(Resource::new(name, body, origins)));
        }
    }

    /// Returns the secrets that the filters of all its chains need.
    pub(super) fn secrets_of_filters(&self) -> BTreeMap<Arc<str>, Arc<Resource>> {
        let filters = self.tables.keys().flat_map(|table| self.filters(table));
        let secrets = filters.flat_map(|filter| filter.secrets());
        secrets.map(|secret| (secret.name.clone(), Arc::new(secret))).collect()
    }

    /// Returns the filters that a table, its hosts and their routes require.
    pub(super) fn filters(&self, table: &TableName) -> Vec<ChainFilter> {
        let hosts = self.tables.get(table).into_iter().flat_map(|table| table.hosts.values());
        let level = self.levels.tables.get(table).filter(|_| !self.is_closed_at(&Scope::Table(table.clone())));
        let own: Vec<ChainFilter> = level.map(|level| level.guards.filters()).unwrap_or_default();
        chain::agreed(hosts.flat_map(|state| &state.filters).chain(&own))
    }
}

fn several(remote: &Remote) -> Option<&Arc<Group>> {
    match remote {
        Remote::Group(group) if group.services.len() > 1 => Some(group),
        _ => None,
    }
}
