//! Which parts of routes use a cluster, and which clusters are made of an object. Read only, when somebody is blamed.

use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_xds::Version;

use super::Translator;
use super::fleet::FleetId;
use super::overlay::Overlay;
use super::route::RoutePlan;
use crate::encode;
use crate::features::remote::Remote;
use crate::snapshot::ObjectSnapshot;

impl Translator {
    /// Who is behind a fleet's cluster, and the parts of routes that use it, with the unit of each.
    pub(crate) fn users(&self, fleet: &FleetId, cluster: &str) -> Option<(Remote, Vec<(Content, Node)>)> {
        self.fleets.get(fleet)?.users(cluster)
    }

    /// The clusters of a Gateway that are made of an object as all are desired, each with the units that use it.
    pub(crate) fn clusters_through(&self, gateway: &ObjectKey, key: &ObjectKey) -> Vec<(Version, Node)> {
        let routes = self.routes_reading(key);
        let plans = routes.iter().filter_map(|route| self.routes.get(route));
        plans.filter(|plan| plan.gateways().contains(gateway)).flat_map(|plan| clusters_in(plan, key)).collect()
    }

    /// The filters that the routes of a Gateway ask for as they are desired: what is refused of each as a content, who says
    /// what it does, and the unit that asks for it. Looks at all routes: for questions that are rare.
    pub(crate) fn filters(&self, gateway: &ObjectKey) -> Vec<(Content, ObjectKey, Node)> {
        let plans = self.routes.values().filter(|plan| plan.gateways().contains(gateway));
        plans.flat_map(|plan| filters_in(plan)).chain(self.connection_texts(gateway)).collect()
    }

    /// The same of one route.
    pub(crate) fn filters_of(&self, plan: &RoutePlan) -> Vec<Content> {
        filters_in(plan).into_iter().map(|(content, _, _)| content).collect()
    }

    /// The clusters that are made of an object under an overlay: of those routes that are then served in another version.
    pub(crate) fn clusters_through_under(
        &self,
        gateway: &ObjectKey,
        key: &ObjectKey,
        over: &Overlay,
        objects: &ObjectSnapshot,
    ) -> Vec<(Version, Node)> {
        let routes = self.routes_reading(key);
        let altered = routes.iter().filter(|route| over.objects.contains_key(*route));
        let plans = altered.filter_map(|route| self.try_route(route, over, objects));
        let plans = plans.filter(|plan| plan.gateways().contains(gateway));
        plans.flat_map(|plan| clusters_in(&plan, key)).collect()
    }
}

fn clusters_in(plan: &RoutePlan, key: &ObjectKey) -> Vec<(Version, Node)> {
    let mut clusters = Vec::new();
    for rendered in &plan.routes {
        for remote in rendered.route.uses().iter().filter(|remote| remote.origins().contains(&key)) {
            clusters.push((Version::of(&encode::cluster::remote(remote)), rendered.node()));
        }
    }
    clusters
}

/// The filters that the parts of a plan ask for, as contents, each with who says what it does.
fn filters_in(plan: &RoutePlan) -> Vec<(Content, ObjectKey, Node)> {
    let mut filters = Vec::new();
    for rendered in plan.routes.iter().filter(|rendered| !rendered.route.guards.is_empty()) {
        for filter in rendered.route.guards.filters() {
            let owner = filter.owners().first().unwrap_or(&rendered.route.key).clone();
            filters.push((encode::chain_parts::filter_content(&filter), owner, rendered.node()));
        }
    }
    filters
}
