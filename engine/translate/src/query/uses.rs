//! Use of clusters: the routes that use a cluster, and the clusters that are made of an object. Queried only when a
//! refusal is attributed.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_envoy::encode;
use holdfast_envoy::features::chain::ChainFilter;
use holdfast_envoy::features::remote::Remote;
use holdfast_envoy::features::upstream::ClientIdentity;
use holdfast_envoy::inspect::chain_parts;
use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_xds::Version;

use crate::Translator;
use crate::assembly::fleet::FleetId;
use crate::outcome::policy::PolicyPlan;
use crate::outcome::route::RoutePlan;
use crate::overlay::Overlay;

impl Translator {
    /// Returns the service behind a fleet's cluster, and the routes that use the cluster, each with its unit.
    pub fn users(&self, fleet: &FleetId, cluster: &str) -> Option<(Remote, Vec<(Content, Node)>)> {
        self.assembly.fleets.get(fleet)?.users(cluster)
    }

    /// Returns the desired clusters of a Gateway that are made of an object, each with a unit that uses it.
    pub fn clusters_through(&self, gateway: &ObjectKey, key: &ObjectKey) -> Vec<(Version, Node)> {
        let routes = self.routes_reading(key);
        let plans = routes.iter().filter_map(|route| self.routes.get(route));
        let plans = plans.filter(|plan| plan.gateways().contains(gateway));
        let identity = self.identity(gateway);
        let mut clusters: Vec<(Version, Node)> = plans.flat_map(|plan| clusters_in(plan, key, identity)).collect();
        for (filter, unit) in self.level_filters(gateway) {
            let through = filter.remotes().into_iter().filter(|remote| remote.origins().contains(&key));
            clusters
                .extend(through.map(|remote| (Version::of(&encode::cluster::remote(remote, identity)), unit.clone())));
        }
        // Services for access logs and traces of its listeners.
        let of_connections =
            self.policy.levels.get(gateway).into_iter().flat_map(|levels| levels.connections.remotes());
        for (remote, policy) in of_connections.filter(|(remote, _)| remote.origins().contains(&key)) {
            clusters.push((Version::of(&encode::cluster::remote(&remote, identity)), Node::whole(policy)));
        }
        clusters
    }

    /// Returns the desired filters of a Gateway, its listeners and its routes. Each entry has the content that Envoy
    /// can refuse, the object that configures the filter, and the unit that requires it. Scans all routes: for rare
    /// queries only.
    pub fn filters(&self, gateway: &ObjectKey) -> Vec<(Content, ObjectKey, Node)> {
        let plans = self.routes.each().map(|(_, plan)| plan).filter(|plan| plan.gateways().contains(gateway));
        let of_routes = plans.flat_map(|plan| filters_in(plan));
        let of_levels = self.level_filters(gateway).into_iter().map(|(filter, unit)| with_owner(&filter, unit));
        of_routes.chain(of_levels).collect()
    }

    /// Returns the filters of routes that a fleet gets in another version than the desired one, as [`Self::filters`].
    pub fn served_filters(&self, fleet: &FleetId) -> Vec<(Content, ObjectKey, Node)> {
        let served = self.variants.routes.iter().filter(|((id, _), _)| id == fleet);
        served.flat_map(|(_, plan)| filters_in(plan)).collect()
    }

    /// Returns the filters that policies of a Gateway and its listeners require, each with such a policy. If Envoy
    /// refuses a filter, the policy closes its targets.
    fn level_filters(&self, gateway: &ObjectKey) -> Vec<(ChainFilter, Node)> {
        let levels = self.policy.levels.get(gateway).into_iter().flat_map(|levels| levels.each());
        let filters = levels.flat_map(|(_, level)| {
            let required = level.guards.filters();
            let policies = level.keys.iter().filter_map(|key| Some((key, self.outcomes.policies.get(key)?)));
            policies.flat_map(move |(key, plan)| {
                let own: Vec<ChainFilter> = plan.chain_filters();
                let own = own.into_iter().filter(|filter| required.contains(filter)).collect::<Vec<_>>();
                own.into_iter().map(|filter| (filter, Node::whole(key.clone())))
            })
        });
        filters.collect()
    }

    /// Returns the sets of contents that are published together, by one part of a route or above the routes: filters
    /// and policy fields, and the part of the route itself. If one of them is closed, the others are no longer
    /// required. Scans all routes: for rare queries only.
    pub fn published_together(&self, gateway: &ObjectKey) -> Vec<BTreeSet<Content>> {
        let fleet = self.assembly.fleets.get(&FleetId::main(gateway));
        let plans = self.routes.each().map(|(_, plan)| plan).filter(|plan| plan.gateways().contains(gateway));
        let placed = plans.flat_map(|plan| fleet.into_iter().flat_map(|fleet| fleet.placed(plan)));
        let parts = placed.map(|(_, context, rendered)| {
            let guards = &rendered.route.guards;
            let filters = if guards.is_empty() { Vec::new() } else { guards.filters() };
            let contents = rendered.policy_settings().iter().map(|setting| setting.content());
            let own = rendered.encoded(context).1;
            contents.chain(filters.iter().map(chain_parts::filter_content)).chain([own]).collect()
        });
        let levels = self.policy.levels.get(gateway).into_iter().flat_map(|levels| levels.each());
        let policies = levels.flat_map(|(_, level)| &level.keys).filter_map(|key| self.outcomes.policies.get(key));
        let contents = policies.flat_map(|plan| plan.contents()).map(|(_, content)| content);
        let filters = self.level_filters(gateway).into_iter().map(|(filter, _)| chain_parts::filter_content(&filter));
        let above: BTreeSet<Content> = contents.chain(filters).collect();
        parts.chain([above]).filter(|group| group.len() > 1).collect()
    }

    /// Returns whether a desired object has this content. The object `key` is checked first; the scan of all other
    /// objects is for rare queries only.
    pub fn is_desired(&self, fleet: &FleetId, key: &ObjectKey, content: &Content) -> bool {
        let gateway = &fleet.gateway;
        let of_route = |plan: &Arc<RoutePlan>| {
            self.contents_under_any_levels(fleet, plan).iter().any(|(known, _)| known == content)
        };
        let of_policy = |plan: &Arc<PolicyPlan>| plan.contents().any(|(_, known)| known == *content);
        self.route(key).is_some_and(of_route)
            || self.policy(key).is_some_and(of_policy)
            || self.has_content(gateway, content)
            || self.chains(gateway).iter().any(|(known, _)| known == content)
            || self.filters(gateway).iter().any(|(known, _, _)| known == content)
            || self.outcomes.policies.values().any(of_policy)
    }

    /// Returns the filters of one route as contents.
    pub fn filters_of(&self, plan: &RoutePlan) -> Vec<Content> {
        filters_in(plan).into_iter().map(|(content, _, _)| content).collect()
    }

    /// Returns the clusters of a route at a Gateway that are made of an object.
    pub fn clusters_of(&self, gateway: &ObjectKey, plan: &RoutePlan, key: &ObjectKey) -> Vec<Version> {
        clusters_in(plan, key, self.identity(gateway)).into_iter().map(|(cluster, _)| cluster).collect()
    }

    /// Returns the clusters that are made of an object under an overlay, for the routes that the overlay serves in
    /// another version.
    pub fn clusters_through_under(
        &self,
        gateway: &ObjectKey,
        key: &ObjectKey,
        over: &Overlay,
        objects: &ObjectSnapshot,
    ) -> Vec<(Version, Node)> {
        let routes = self.routes_reading(key);
        let altered = routes.iter().filter(|route| over.objects.contains_key(*route));
        self.made_by(altered, gateway, key, over, objects)
    }

    /// Returns the clusters that are made of an object under an overlay, for all routes that read the object.
    pub fn clusters_made_under(
        &self,
        gateway: &ObjectKey,
        key: &ObjectKey,
        over: &Overlay,
        objects: &ObjectSnapshot,
    ) -> Vec<(Version, Node)> {
        self.made_by(self.routes_reading(key).iter(), gateway, key, over, objects)
    }

    fn made_by<'r>(
        &self,
        routes: impl Iterator<Item = &'r ObjectKey>,
        gateway: &ObjectKey,
        key: &ObjectKey,
        over: &Overlay,
        objects: &ObjectSnapshot,
    ) -> Vec<(Version, Node)> {
        let plans = routes.filter_map(|route| self.try_route(route, over, objects));
        let plans = plans.filter(|plan| plan.gateways().contains(gateway));
        plans.flat_map(|plan| clusters_in(&plan, key, self.identity(gateway))).collect()
    }
}

fn clusters_in(plan: &RoutePlan, key: &ObjectKey, identity: &ClientIdentity) -> Vec<(Version, Node)> {
    let mut clusters = Vec::new();
    if let Some(stream) = &plan.stream {
        let through = stream.uses().into_iter().filter(|remote| remote.origins().contains(&key));
        clusters.extend(
            through.map(|remote| (Version::of(&encode::cluster::remote(&remote, identity)), stream.node.clone())),
        );
    }
    for rendered in &plan.routes {
        for remote in rendered.route.uses().iter().filter(|remote| remote.origins().contains(&key)) {
            clusters.push((Version::of(&encode::cluster::remote(remote, identity)), rendered.node()));
        }
    }
    clusters
}

/// Returns the filters that the routes of a plan require, as contents, each with the object that configures it and the
/// unit that requires it.
fn filters_in(plan: &RoutePlan) -> Vec<(Content, ObjectKey, Node)> {
    let mut filters = Vec::new();
    for rendered in plan.routes.iter().filter(|rendered| !rendered.route.guards.is_empty()) {
        filters.extend(rendered.route.guards.filters().iter().map(|filter| with_owner(filter, rendered.node())));
    }
    filters
}

/// Returns a filter as a content, with the object that configures it and the unit that requires it.
fn with_owner(filter: &ChainFilter, unit: Node) -> (Content, ObjectKey, Node) {
    let owner = filter.owners().first().unwrap_or(&unit.key).clone();
    (chain_parts::filter_content(filter), owner, unit)
}
