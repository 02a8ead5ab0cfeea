//! Places of the routes of a route object: the hosts at which a fleet serves them.

use std::collections::BTreeSet;

use holdfast_graph::ObjectKey;

use super::Fleet;

impl Fleet {
    /// Returns the number of routes of a route object, at each of its hosts.
    pub(crate) fn routes_at_hosts(&self, key: &ObjectKey) -> usize {
        let places = self.routes.get(key).into_iter().flat_map(|plan| &plan.places);
        let own: BTreeSet<_> = places.filter(|(gateway, _, _)| *gateway == self.key).collect();
        let hosts = own.into_iter().filter_map(|(_, table, host)| self.tables.get(table)?.hosts.get(host));
        hosts.flat_map(|host| host.routes.values()).filter(|rendered| rendered.route.key == *key).count()
    }
}
