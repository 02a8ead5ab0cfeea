//! A host of a route table: its routes, and what is kept of its last encoding.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_envoy::features::chain::ChainFilter;
use holdfast_envoy::features::filters;
use holdfast_envoy::features::upstream::ClientIdentity;
use holdfast_envoy::model::HostSettings;
use holdfast_graph::Origins;
use holdfast_xds::Version;

use super::clients::Open;
use super::levels::speaks;
use super::placed::PlacedRoute;
use crate::outcome::route::Rendered;
use crate::policy::level::Level;

/// A host of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct HostState {
    /// Why the host exists even without routes; unset where only its routes require it.
    pub(super) base: Option<Base>,
    pub(super) routes: BTreeSet<PlacedRoute>,
    /// Routes with settings of listener and Gateway policies: the desired route and the served route.
    with_policies: BTreeMap<PlacedRoute, Arc<Rendered>>,
    /// The policy levels that `with_policies` was computed from, the more specific first.
    policy_levels: [Option<Arc<Level>>; 2],
    /// Whether `with_policies` was computed without a required client certificate for backends.
    lacks_client: bool,
    /// The settings of the whole host.
    pub(super) settings: HostSettings,
    /// The filters that its routes require.
    pub(super) filters: BTreeSet<ChainFilter>,
    pub(super) bytes: Bytes,
    pub(super) version: Option<Version>,
    pub(super) origins: Origins,
}

impl HostState {
    /// Returns a host that exists without routes.
    pub(super) fn without_routes(base: Base) -> Self {
        Self { base: Some(base), ..Self::default() }
    }

    /// Returns the routes with the settings of listener and Gateway policies, at a Gateway with this client certificate.
    /// A served route of the last call is used again if neither the settings nor the route changed.
    pub(super) fn routes_under(&mut self, levels: &[Option<Arc<Level>>; 2], open: &Open<'_>) -> Vec<Arc<Rendered>> {
        let mut before = std::mem::take(&mut self.with_policies);
        let lacks_client = *open.identity == ClientIdentity::Unavailable;
        if self.policy_levels != *levels || self.lacks_client != lacks_client {
            before.clear();
            self.policy_levels.clone_from(levels);
            self.lacks_client = lacks_client;
        }
        let by_action = levels.each_ref().map(Option::as_ref);
        if !speaks(&by_action) && !lacks_client {
            return self.routes.iter().map(|placed| placed.rendered.clone()).collect();
        }
        let mut all = Vec::with_capacity(self.routes.len());
        for placed in &self.routes {
            let known = before.get_key_value(placed);
            let known = known.filter(|(desired, _)| Arc::ptr_eq(&desired.rendered, &placed.rendered));
            let fresh = || open.served(&placed.rendered, &by_action);
            let served = known.map_or_else(fresh, |(_, served)| served.clone());
            self.with_policies.insert(placed.clone(), served.clone());
            all.push(served);
        }
        all
    }

    /// Returns the desired routes in order.
    pub(super) fn desired(&self) -> impl ExactSizeIterator<Item = &Rendered> {
        self.routes.iter().map(|placed| &*placed.rendered)
    }

    /// Returns the settings of the virtual host, including those of policies.
    pub(super) fn settings_under(&self, levels: &[Option<Arc<Level>>; 2]) -> HostSettings {
        let mut settings = self.settings.clone();
        if let [Some(own), all] = levels {
            // The settings of an HTTPProxy for its host take precedence.
            settings.filters.clone_from(&own.filters);
            settings.guards = own.guards.under(all.iter().map(|all| &all.guards)).into();
            if settings.rate_limit.is_some() {
                settings.filters.remove(&filters::Filter::LocalRateLimit);
            }
        }
        settings
    }
}

/// Reason for a host without routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// A listener owns the host.
    Owned,
    /// Another listener of the port owns the host.
    Misdirected,
}
