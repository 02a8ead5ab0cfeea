//! Settings that policies of a Gateway and of its listeners apply to the resources of its Envoys.
//!
//! Settings are placed where the policy is attached: in the route configuration, or in the virtual hosts of a plain
//! listener. Settings of routes are put into each route: time limits and similar fields and, for a route with guards of
//! its own, the guards of outer levels that stay in force.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::settings::body_for;
use holdfast_envoy::encode::names;
use holdfast_envoy::features::chain::ChainFilter;
use holdfast_envoy::features::filters::{self, Guarding};
use holdfast_envoy::features::guards::Guards;
use holdfast_envoy::features::remote::Remote;
use holdfast_envoy::model::FixedResponse;
use holdfast_envoy::model::port::BoundPort;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_graph::ObjectKey;

use super::Fleet;
use crate::outcome::listener::ListenerState;
use crate::outcome::policy::Unenforceable;
use crate::outcome::route::{Rendered, RoutePlan};
use crate::outcome::setting::PolicySetting;
use crate::policy::level::{Level, LevelPlan, Scope};

/// Settings that policies of a Gateway apply to the filters that protect a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayGuards {
    /// The settings in the route configuration.
    pub configuration: Guarding,
    /// The settings in the virtual host.
    pub host: Guarding,
    /// The guards among them that must be in the chain, the inner level first.
    pub levels: [Guards; 2],
    /// The policy fields. Their place is the route configuration, and the plain listener that owns the host.
    pub policy_settings: BTreeSet<PolicySetting>,
    /// The table of the route configuration, and the plain listener that owns the host.
    pub place: Option<(TableName, Option<Arc<str>>)>,
    /// Whether policies close the host.
    pub closed: bool,
}

impl Fleet {
    /// Applies changed policy settings of the Gateway.
    pub(crate) fn set_levels(&mut self, levels: Arc<LevelPlan>) {
        if self.levels == levels {
            return;
        }
        let before = std::mem::replace(&mut self.levels, levels);
        if before.connections != self.levels.connections {
            self.connect(&before.connections);
        }
        let names: Vec<TableName> = self.tables.keys().cloned().collect();
        for name in names {
            let (old, new) = (before.tables.get(&name), self.levels.tables.get(&name));
            let action = |level: Option<&Arc<Level>>| level.map(|level| level.action.clone()).unwrap_or_default();
            let guards = |level: Option<&Arc<Level>>| level.map(|level| level.guards.clone()).unwrap_or_default();
            let closed = |level: Option<&Arc<Level>>| level.is_some_and(|level| level.closed.is_some());
            if old != new {
                self.dirty_tables.insert(name.clone());
            }
            let reclosed = closed(old) != closed(new);
            let guards_changed = guards(old) != guards(new);
            self.dirty_listeners |= guards_changed || reclosed;
            let everywhere = action(old) != action(new) || guards_changed || reclosed;
            let Some(table) = self.tables.get(&name) else { continue };
            for host in table.hosts.keys() {
                let own = self.listener_of(&name, host);
                let own = own.filter(|own| before.listeners.get(own) != self.levels.listeners.get(own));
                if everywhere || own.is_some() {
                    self.dirty_hosts.insert((name.clone(), host.clone()));
                }
            }
        }
        self.set_level_remotes();
    }

    /// Updates the clusters of the external services that the filters of Gateway and listener policies call.
    pub(super) fn set_level_remotes(&mut self) {
        let open = self.levels.each().filter(|(scope, _)| !self.is_closed_at(scope));
        let filters: Vec<ChainFilter> = open.flat_map(|(_, level)| level.guards.filters()).collect();
        let after: BTreeSet<Remote> = filters.iter().flat_map(ChainFilter::remotes).cloned().collect();
        let before = std::mem::replace(&mut self.level_remotes, after.clone());
        let own = self.key.clone();
        after.difference(&before).for_each(|remote| self.use_remote(remote, &own));
        before.difference(&after).for_each(|remote| self.release_remote(remote, &own));
    }

    /// Returns the plain listener that owns a host: the most specific one of its port.
    pub(crate) fn listener_of(&self, table: &TableName, host: &Host) -> Option<Arc<str>> {
        let TableName::Port(port) = table else { return None };
        let of_host =
            self.plan.on_port(BoundPort::tcp(*port)).filter(|listener| !listener.https && listener.host().covers(host));
        of_host.min_by_key(|listener| listener.host().specificity()).map(|listener| listener.name.clone())
    }

    /// Returns the policy levels of a host, the more specific first.
    pub(super) fn levels_at(&self, table: &TableName, host: &Host) -> [Option<&Arc<Level>>; 2] {
        self.levels_in(&self.levels, table, host)
    }

    /// Returns the levels of a host that these policy settings make, the more specific first.
    pub(super) fn levels_in<'l>(
        &self,
        levels: &'l LevelPlan,
        table: &TableName,
        host: &Host,
    ) -> [Option<&'l Arc<Level>>; 2] {
        // There may be thousands of listeners to search.
        if levels.listeners.is_empty() {
            return [None, levels.tables.get(table)];
        }
        let own = self.listener_of(table, host).and_then(|name| levels.listeners.get(&name));
        [own, levels.tables.get(table)]
    }

    /// Returns the policy that closes every place of a route object under the given policy settings; `None` where a
    /// place is open.
    pub(crate) fn closed_by<'l>(&self, plan: &RoutePlan, levels: &'l LevelPlan) -> Option<&'l ObjectKey> {
        let mut by = None;
        for (_, table, host) in plan.places.iter().filter(|(gateway, _, _)| *gateway == self.key) {
            let own = self.listener_of(table, host).and_then(|name| levels.listeners.get(&name));
            let all = own.into_iter().chain(levels.tables.get(table));
            let (policy, _) = all.into_iter().find_map(|level| level.closed.as_ref())?;
            by.get_or_insert(policy);
        }
        by
    }

    /// Returns the policy settings of the fleet.
    pub(crate) fn levels(&self) -> &Arc<LevelPlan> {
        &self.levels
    }

    /// Returns the policy fields that apply to the named route configuration and to its hosts; empty where policies
    /// close it.
    pub(crate) fn policy_settings(&self, resource: &str) -> BTreeSet<PolicySetting> {
        let table = self.tables.keys().find(|name| names::route_configuration(name) == resource);
        let Some(table) = table.filter(|_| *self.levels != LevelPlan::default()) else { return BTreeSet::new() };
        let whole = Scope::Table(table.clone());
        if self.is_closed_at(&whole) {
            return BTreeSet::new();
        }
        let listeners = self.plan.all().filter(|listener| listener.state != ListenerState::Out);
        let own = listeners.filter(|listener| listener.table() == *table);
        let scopes = own.map(|listener| Scope::Listener(listener.name.clone())).chain([whole]);
        let open = scopes.filter(|scope| !self.is_closed_at(scope));
        let policy_settings =
            open.filter_map(|scope| self.levels.at(&scope)).flat_map(|level| level.policy_settings.iter());
        // Connection settings are part of listeners, not of route configurations.
        policy_settings.filter(|setting| !setting.is_of_connection()).cloned().collect()
    }

    /// Returns whether a policy that cannot be enforced closes a host.
    pub(crate) fn is_closed(&self, table: &TableName, host: &Host) -> bool {
        let own = || self.listener_of(table, host).map(Scope::Listener);
        let guards = || Some(&self.tables.get(table)?.hosts.get(host)?.settings.guards);
        self.is_closed_at(&Scope::Table(table.clone()))
            || guards().is_some_and(|guards| self.plan.identity().closes_guards(guards))
            || (!self.levels.listeners.is_empty() && own().is_some_and(|own| self.is_closed_at(&own)))
    }

    /// Returns the policy that cannot be enforced and therefore closes a host, with the reason.
    pub(crate) fn closing(&self, table: &TableName, host: &Host) -> Option<&(ObjectKey, Unenforceable)> {
        let own = || self.listener_of(table, host).and_then(|name| self.levels.listeners.get(&name));
        let closed = self.levels.tables.get(table).and_then(|level| level.closed.as_ref());
        closed.or_else(|| own()?.closed.as_ref())
    }

    /// Returns the response of what a policy closes. Its body names the kind of the object to edit.
    pub(super) fn closed_response(&self, closing: Option<&(ObjectKey, Unenforceable)>) -> FixedResponse {
        let body = closing.map_or_else(|| self.closed.body.clone(), |(_, why)| body_for(&self.closed.body, &why.kind));
        FixedResponse::new(self.closed.status, body)
    }

    /// Returns whether a policy closes a route configuration, or all hosts of a plain listener. A missing validation of
    /// client certificates closes a route configuration as well, and so does a filter that needs a service to which the
    /// Gateway lacks the client certificate.
    pub(super) fn is_closed_at(&self, scope: &Scope) -> bool {
        let identity = self.plan.identity();
        self.levels.at(scope).is_some_and(|level| level.closed.is_some() || identity.closes_guards(&level.guards))
            || matches!(scope, Scope::Table(table) if self.unvalidated.contains(table))
    }

    /// Returns the settings that policies apply to the filters that protect a host.
    pub(crate) fn guards(&self, configuration: &str, domain: &str) -> GatewayGuards {
        let table = self.tables.keys().find(|name| names::route_configuration(name) == configuration);
        let Some(table) = table.filter(|_| *self.levels != LevelPlan::default()) else {
            return GatewayGuards::default();
        };
        let host = Host::new(Some(&domain.into()));
        let [own, all] = self.levels_at(table, &host);
        let guards_of = |level: Option<&Arc<Level>>| level.map(|level| level.guards.clone()).unwrap_or_default();
        let levels = [guards_of(own).under([&guards_of(all)]), guards_of(all)];
        let of = |level: Option<&Arc<Level>>, guards: &Guards| {
            let filters = level.map(|level| filters::guarding(&level.filters)).unwrap_or_default();
            filters.into_iter().chain(guards.guarding()).collect()
        };
        let (configuration, of_host) = (of(all, &levels[1]), of(own, &levels[0]));
        let policy_settings =
            own.into_iter().chain(all).flat_map(|level| level.policy_settings.iter().cloned()).collect();
        let place = Some((table.clone(), self.listener_of(table, &host)));
        GatewayGuards {
            configuration,
            host: of_host,
            levels,
            policy_settings,
            place,
            closed: self.is_closed(table, &host),
        }
    }
}

/// Returns whether policies have settings that are put into single routes.
pub(super) fn speaks(levels: &[Option<&Arc<Level>>]) -> bool {
    levels.iter().flatten().any(|level| !level.action.is_empty() || !level.guards.is_empty())
}

/// Returns a route with the settings of listener and Gateway policies; `None` where they change nothing.
pub(super) fn with_policies(rendered: &Rendered, levels: &[Option<&Arc<Level>>]) -> Option<Arc<Rendered>> {
    let has_action = levels.iter().flatten().any(|level| !level.action.is_empty());
    if !speaks(levels) || (!has_action && rendered.route.guards.is_empty()) {
        return None;
    }
    let mut route = rendered.route.clone();
    levels.iter().flatten().for_each(|level| level.action.apply(&mut route));
    route.guards = route.guards.under(levels.iter().flatten().map(|level| &level.guards)).into();
    (route != rendered.route).then(|| {
        let speaking = levels.iter().flatten().filter(|level| !level.action.is_empty() || !level.guards.is_empty());
        let of_levels =
            speaking.flat_map(|level| level.policy_settings.iter()).filter(|setting| !setting.is_of_connection());
        let policy_settings = of_levels.chain(rendered.policy_settings().iter());
        Arc::new(Rendered::with_policies(
            route,
            Arc::new(rendered.bare().clone()),
            Arc::new(policy_settings.cloned().collect()),
        ))
    })
}
