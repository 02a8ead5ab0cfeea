//! Which parts of routes use a cluster, and which clusters are made of an object. Read only, when somebody is blamed.

use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_xds::Version;

use super::Translator;
use super::fleet::FleetId;
use super::overlay::Overlay;
use super::route::RoutePlan;
use crate::encode;
use crate::model::Backend;
use crate::snapshot::ObjectSnapshot;

impl Translator {
    /// The back end of a fleet's cluster, and the parts of routes that use it, with the unit of each.
    pub(crate) fn users(&self, fleet: &FleetId, cluster: &str) -> Option<(&Backend, Vec<(Content, Node)>)> {
        self.fleets.get(fleet)?.users(cluster)
    }

    /// The clusters of a Gateway that are made of an object as all are desired, each with the units that use it.
    pub(crate) fn clusters_through(&self, gateway: &ObjectKey, key: &ObjectKey) -> Vec<(Version, Node)> {
        let routes = self.routes_reading(key);
        let plans = routes.iter().filter_map(|route| self.routes.get(route));
        plans.filter(|plan| plan.gateways().contains(gateway)).flat_map(|plan| clusters_in(plan, key)).collect()
    }

    /// The same under an overlay: of those routes that are then served in another version.
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
    let backends = plan.backends.iter().filter(|backend| backend.origins().any(|origin| origin == key));
    let clusters = backends.flat_map(|backend| {
        let version = Version::of(&encode::cluster::encode(backend));
        let users = plan.routes.iter().filter(|rendered| rendered.route.backends().any(|used| used == backend));
        users.map(move |rendered| (version, rendered.node())).collect::<Vec<_>>()
    });
    clusters.collect()
}
