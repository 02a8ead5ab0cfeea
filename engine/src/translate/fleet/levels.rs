//! What policies of a Gateway and of its listeners say to what its Envoys have.
//!
//! Settings stand where the policy is attached: in the route configuration or in the hosts of a plain listener. What
//! routes are told there besides is put into each of them: time limits and the like, and for guards of their own what
//! stays in force of those further away.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_graph::ObjectKey;
use prost::Message;

use super::Fleet;
use crate::encode::names;
use crate::features::chain::ChainFilter;
use crate::features::filters::{self, Guarding};
use crate::features::guards::Guards;
use crate::features::remote::Remote;
use crate::translate::listener::Standing;
use crate::translate::policy::level::{Level, LevelPlan, Scope};
use crate::translate::policy::said::Said;
use crate::translate::route::{Rendered, RoutePlan};
use crate::translate::table::{Host, TableName};

/// What policies of a Gateway say to the filters that protect a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GatewayGuards {
    /// In the route configuration.
    pub(crate) configuration: Guarding,
    /// In the host.
    pub(crate) host: Guarding,
    /// Of these, those that must be in the chain, the closer first.
    pub(crate) levels: [Guards; 2],
    /// What those policies say, and where: in which route configuration, and to which plain listener's hosts.
    pub(crate) said: BTreeSet<Said>,
    pub(crate) place: Option<(TableName, Option<Arc<str>>)>,
    /// Is all of it closed?
    pub(crate) closed: bool,
}

impl Fleet {
    /// What policies say to the Gateway changed.
    pub(in crate::translate) fn set_levels(&mut self, levels: Arc<LevelPlan>) {
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
            let asks_others = guards(old) != guards(new);
            self.dirty_listeners |= asks_others || reclosed;
            let everywhere = action(old) != action(new) || asks_others || reclosed;
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

    /// The clusters of those whom filters ask for policies of the Gateway and its listeners.
    fn set_level_remotes(&mut self) {
        let open = self.levels.each().filter(|(scope, _)| !self.is_closed_at(scope));
        let filters: Vec<ChainFilter> = open.flat_map(|(_, level)| level.guards.filters()).collect();
        let after: BTreeSet<Remote> = filters.iter().flat_map(ChainFilter::remotes).cloned().collect();
        let before = std::mem::replace(&mut self.level_remotes, after.clone());
        let own = self.key.clone();
        after.difference(&before).for_each(|remote| self.use_remote(remote, &own));
        before.difference(&after).for_each(|remote| self.release_remote(remote, &own));
    }

    /// The plain listener that has a host: the most specific one of its port.
    fn listener_of(&self, table: &TableName, host: &Host) -> Option<Arc<str>> {
        let TableName::Port(port) = table else { return None };
        let of_host = self.plan.on_port(*port).filter(|listener| !listener.https && listener.host().covers(host));
        of_host.min_by_key(|listener| listener.host().specificity()).map(|listener| listener.name.clone())
    }

    /// What policies say to a host, the more specific first.
    pub(super) fn levels_at(&self, table: &TableName, host: &Host) -> [Option<&Arc<Level>>; 2] {
        // There may be thousands of listeners.
        if self.levels.listeners.is_empty() {
            return [None, self.levels.tables.get(table)];
        }
        let own = self.listener_of(table, host).and_then(|name| self.levels.listeners.get(&name));
        [own, self.levels.tables.get(table)]
    }

    /// The policy that closes every place of a route object where these are what policies say; none where it is open.
    pub(in crate::translate) fn closed_by<'l>(&self, plan: &RoutePlan, levels: &'l LevelPlan) -> Option<&'l ObjectKey> {
        let mut by = None;
        for (_, table, host) in plan.places.iter().filter(|(gateway, _, _)| *gateway == self.key) {
            let own = self.listener_of(table, host).and_then(|name| levels.listeners.get(&name));
            let all = own.into_iter().chain(levels.tables.get(table));
            let (policy, _) = all.into_iter().find_map(|level| level.closed.as_ref())?;
            by.get_or_insert(policy);
        }
        by
    }

    /// What policies say to it.
    pub(in crate::translate) fn levels(&self) -> &Arc<LevelPlan> {
        &self.levels
    }

    /// What policies say to the route configuration of this name and to its hosts, where it is not closed.
    pub(in crate::translate) fn said(&self, resource: &str) -> BTreeSet<Said> {
        let table = self.tables.keys().find(|name| names::route_configuration(name) == resource);
        let Some(table) = table.filter(|_| *self.levels != LevelPlan::default()) else { return BTreeSet::new() };
        let whole = Scope::Table(table.clone());
        if self.is_closed_at(&whole) {
            return BTreeSet::new();
        }
        let listeners = self.plan.all().filter(|listener| listener.standing != Standing::Out);
        let own = listeners.filter(|listener| listener.table() == *table);
        let scopes = own.map(|listener| Scope::Listener(listener.name.clone())).chain([whole]);
        let open = scopes.filter(|scope| !self.is_closed_at(scope));
        let said = open.filter_map(|scope| self.levels.at(&scope)).flat_map(|level| level.said.iter());
        // What is said to listeners stands there.
        said.filter(|said| !said.is_of_connection()).cloned().collect()
    }

    /// Is a host closed because a policy cannot be enforced?
    pub(in crate::translate) fn is_closed(&self, table: &TableName, host: &Host) -> bool {
        let own = || self.listener_of(table, host).map(Scope::Listener);
        self.is_closed_at(&Scope::Table(table.clone()))
            || (!self.levels.listeners.is_empty() && own().is_some_and(|own| self.is_closed_at(&own)))
    }

    /// The policy that closes a host because it cannot be enforced.
    pub(in crate::translate) fn closing(&self, table: &TableName, host: &Host) -> Option<&ObjectKey> {
        let own = || self.listener_of(table, host).and_then(|name| self.levels.listeners.get(&name));
        let closed = self.levels.tables.get(table).and_then(|level| level.closed.as_ref());
        closed.or_else(|| own()?.closed.as_ref()).map(|(policy, _)| policy)
    }

    /// The same of a route configuration, or of all hosts of a plain listener.
    pub(super) fn is_closed_at(&self, scope: &Scope) -> bool {
        self.levels.at(scope).is_some_and(|level| level.closed.is_some())
    }

    /// What policies say to the filters that protect a host.
    pub(in crate::translate) fn guards(&self, configuration: &str, domain: &str) -> GatewayGuards {
        let table = self.tables.keys().find(|name| names::route_configuration(name) == configuration);
        let Some(table) = table.filter(|_| *self.levels != LevelPlan::default()) else {
            return GatewayGuards::default();
        };
        let host = Host::new(Some(&domain.into()));
        let [own, all] = self.levels_at(table, &host);
        let said = |level: Option<&Arc<Level>>| level.map(|level| level.guards.clone()).unwrap_or_default();
        let levels = [said(own).under([&said(all)]), said(all)];
        let of = |level: Option<&Arc<Level>>, guards: &Guards| {
            let filters = level.map(|level| filters::guarding(&level.filters)).unwrap_or_default();
            let asked = guards.encode().into_iter().map(|(name, config)| (name, config.encode_to_vec()));
            filters.into_iter().chain(asked).collect()
        };
        let (configuration, of_host) = (of(all, &levels[1]), of(own, &levels[0]));
        let said = own.into_iter().chain(all).flat_map(|level| level.said.iter().cloned()).collect();
        let place = Some((table.clone(), self.listener_of(table, &host)));
        GatewayGuards { configuration, host: of_host, levels, said, place, closed: self.is_closed(table, &host) }
    }
}

/// Do policies say something that single routes are told?
pub(super) fn speaks(levels: &[Option<&Arc<Level>>]) -> bool {
    levels.iter().flatten().any(|level| !level.action.is_empty() || !level.guards.is_empty())
}

/// A route with what policies of listeners and Gateways say to it; `None` where they say nothing.
pub(super) fn told(rendered: &Rendered, levels: &[Option<&Arc<Level>>]) -> Option<Arc<Rendered>> {
    let says = levels.iter().flatten().any(|level| !level.action.is_empty());
    if !speaks(levels) || (!says && rendered.route.guards.is_empty()) {
        return None;
    }
    let mut route = rendered.route.clone();
    levels.iter().flatten().for_each(|level| level.action.apply(&mut route));
    route.guards = route.guards.under(levels.iter().flatten().map(|level| &level.guards));
    (route != rendered.route).then(|| {
        let speaking = levels.iter().flatten().filter(|level| !level.action.is_empty() || !level.guards.is_empty());
        let of_levels = speaking.flat_map(|level| level.said.iter()).filter(|said| !said.is_of_connection());
        let said = of_levels.chain(rendered.said().iter());
        Arc::new(Rendered::told(route, Arc::new(rendered.bare().clone()), Arc::new(said.cloned().collect())))
    })
}
