//! The objects with which the desired configuration of some objects is translated: all objects, except for routes that
//! have nothing to do with them. A Gateway may have many thousands of routes.

use std::collections::BTreeSet;

use holdfast_api::apis::kinds;
use holdfast_graph::{Graph, Node, ObjectKey};

/// Maximum number of routes that are translated for one query; the configuration of further routes is not compared.
pub(crate) const DIFF_ROUTES_MAX: usize = 500;

/// The objects that some objects affect, and the routes to translate.
#[derive(Debug, Default)]
pub(super) struct DiffSubset {
    /// The objects, and all objects that depend on them.
    pub(super) reached: BTreeSet<ObjectKey>,
    /// The routes and HTTPProxies that are translated.
    pub(super) routes: BTreeSet<ObjectKey>,
    /// Gateways that serve one of them.
    pub(super) gateways: BTreeSet<ObjectKey>,
    /// The number of routes that are left out.
    pub(super) left_out: usize,
}

impl DiffSubset {
    /// The subset for some objects.
    pub(super) fn of(
        targets: &BTreeSet<ObjectKey>,
        graph: &Graph,
        gateways: impl Fn(&ObjectKey) -> BTreeSet<ObjectKey>,
    ) -> Self {
        let mut subset = Self { reached: targets.clone(), ..Self::default() };
        for target in targets {
            let affected = graph.affected(&Node::whole(target.clone()));
            subset.reached.extend(affected.into_iter().map(|affected| affected.node.key));
        }
        let mut waiting: Vec<ObjectKey> = subset.reached.iter().filter(|key| is_route(key)).cloned().collect();
        // The objects themselves before those that depend on them.
        waiting.sort_by_key(|key| !targets.contains(key));
        waiting.reverse();
        while let Some(route) = waiting.pop() {
            if subset.routes.contains(&route) {
                continue;
            }
            if subset.routes.len() == DIFF_ROUTES_MAX {
                subset.left_out += 1;
                continue;
            }
            let read = graph.read_by(&route).iter().map(|edge| &edge.to.key);
            // The includes of an HTTPProxy.
            waiting.extend(read.filter(|key| is_route(key)).cloned());
            subset.gateways.extend(gateways(&route));
            subset.routes.insert(route);
        }
        subset.gateways.extend(subset.reached.iter().filter(|key| &*key.kind == kinds::GATEWAY).cloned());
        subset
    }
}

/// Returns whether an object is a route or an HTTPProxy.
pub(super) fn is_route(key: &ObjectKey) -> bool {
    *key.kind == *kinds::HTTP_PROXY || kinds::ROUTES.contains(&&*key.kind)
}

#[cfg(test)]
mod tests {
    use holdfast_graph::{Edge, Role};

    use super::*;

    fn key(kind: &str, name: &str) -> ObjectKey {
        ObjectKey::new("g", kind, "n", name)
    }

    #[test]
    fn routes_that_depend_on_an_object_come_with_their_includes() {
        let mut graph = Graph::default();
        let edge = |from: &ObjectKey, to: &ObjectKey| Edge {
            from: Node::whole(from.clone()),
            to: Node::whole(to.clone()),
            role: Role::Requires,
        };
        let (root, child, policy) = (key("HTTPProxy", "root"), key("HTTPProxy", "child"), key("TrafficPolicy", "p"));
        let (other, gateway) = (key("HTTPRoute", "other"), key("Gateway", "public"));
        graph.replace(&root, vec![edge(&root, &child), edge(&root, &policy)]);
        graph.replace(&other, vec![edge(&other, &gateway)]);
        let at = |route: &ObjectKey| (*route == root).then(|| gateway.clone()).into_iter().collect();
        let subset = DiffSubset::of(&BTreeSet::from([policy.clone()]), &graph, at);
        assert!(subset.reached.contains(&root) && !subset.reached.contains(&other), "{subset:?}");
        assert_eq!(subset.routes, BTreeSet::from([root.clone(), child]));
        assert_eq!((subset.gateways, subset.left_out), (BTreeSet::from([gateway.clone()]), 0));
    }

    #[test]
    fn the_number_of_routes_is_limited() {
        let targets: BTreeSet<_> = (0..DIFF_ROUTES_MAX + 3).map(|index| key("HTTPRoute", &index.to_string())).collect();
        let subset = DiffSubset::of(&targets, &Graph::default(), |_| BTreeSet::new());
        assert_eq!((subset.routes.len(), subset.left_out), (DIFF_ROUTES_MAX, 3));
    }
}
