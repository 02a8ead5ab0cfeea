//! The client certificate of the Gateway: the clusters of TLS backends with it, and the routes that are closed without
//! it.

use std::sync::Arc;

use holdfast_envoy::features::remote::Remote;
use holdfast_envoy::features::upstream::ClientIdentity;
use holdfast_envoy::model::{BackendCluster, FixedResponse};

use super::Fleet;
use super::levels::with_policies;
use crate::outcome::route::{Rendered, RoutePlan};
use crate::policy::level::Level;

/// What decides whether the backends and services of a route can be reached at a Gateway.
#[derive(Clone, Copy)]
pub(super) struct Open<'f> {
    /// The client certificate of the Gateway.
    pub(super) identity: &'f ClientIdentity,
    /// The response of what is closed.
    pub(super) closed: &'f FixedResponse,
}

impl<'f> Open<'f> {
    pub(super) fn of(fleet: &'f Fleet) -> Self {
        Self { identity: fleet.plan.identity(), closed: &fleet.closed }
    }

    /// Returns a route as served: with the settings of policies, and without backends that cannot be reached.
    pub(super) fn served(&self, rendered: &Arc<Rendered>, levels: &[Option<&Arc<Level>>]) -> Arc<Rendered> {
        let served = with_policies(rendered, levels).unwrap_or_else(|| rendered.clone());
        let Some(route) = self.identity.close(&served.route, self.closed) else { return served };
        if route.guards.is_empty() && route.filters.is_empty() {
            return Arc::new(Rendered::new(route));
        }
        let bare = self.identity.close(served.bare(), self.closed).unwrap_or_else(|| served.bare().clone());
        Arc::new(Rendered::with_policies(route, Arc::new(bare), served.policy_settings().clone()))
    }
}

/// Returns whether every place of a route object is closed, because a filter of its host or above needs a service to
/// which the Gateway lacks the client certificate.
pub(crate) fn lacks_services(fleet: &Fleet, plan: &RoutePlan) -> bool {
    let mut here = plan.places.iter().filter(|(gateway, _, _)| *gateway == fleet.key).peekable();
    here.peek().is_some()
        && here.all(|(_, table, host)| {
            let levels = fleet.levels_at(table, host);
            let of_levels = levels.iter().flatten().map(|level| &level.guards);
            let of_host = fleet.tables.get(table).and_then(|table| table.hosts.get(host));
            let mut guards = of_levels.chain(of_host.map(|host| &*host.settings.guards));
            guards.any(|guards| fleet.plan.identity().closes_guards(guards))
        })
}

/// Encodes the clusters again after a change of the client certificate, and the routes if it is no longer available, or
/// available again.
pub(super) fn changed(fleet: &mut Fleet, before: &ClientIdentity) {
    let now = fleet.plan.identity().clone();
    if *before == now {
        return;
    }
    let backends: Vec<BackendCluster> =
        fleet.backends.keys().filter(|backend| backend.tls().is_some()).cloned().collect();
    backends.iter().for_each(|backend| fleet.put_backend(backend));
    let remotes: Vec<Remote> = fleet.remotes.keys().filter(|remote| remote.tls().is_some()).cloned().collect();
    remotes.iter().for_each(|remote| fleet.put_remote(remote));
    if (*before == ClientIdentity::Unavailable) != (now == ClientIdentity::Unavailable) {
        for (name, table) in &fleet.tables {
            fleet.dirty_tables.insert(name.clone());
            fleet.dirty_hosts.extend(table.hosts.keys().map(|host| (name.clone(), host.clone())));
        }
        fleet.dirty_listeners = true;
        fleet.set_level_remotes();
    }
}
