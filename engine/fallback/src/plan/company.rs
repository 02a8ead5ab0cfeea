//! Backfill of a route together with broken policies, extensions and backends: the earlier version of the route is
//! checked with their earlier versions, because these are served with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::fault::Class;
use holdfast_api::object::Object;
use holdfast_graph::ObjectKey;
use holdfast_translate::overlay::Overlay;
use holdfast_translate::route::Replaced;
use holdfast_translate::route::RoutePlan;

use super::world::World;

impl World<'_> {
    /// Returns the plan of an earlier version of a route, with the earlier versions of the objects that close its
    /// units. Returns `None` if these objects have no earlier versions, or if the route itself is not broken: then the
    /// route is served as desired.
    pub(crate) fn together(&self, earlier: &Arc<Object>, plan: &RoutePlan) -> Option<RoutePlan> {
        let mut over = self.instead_of(plan);
        if over.is_empty() {
            return None;
        }
        let desired = self.translator.try_route(&earlier.key, &over, self.objects)?;
        let own = |replaced: &Replaced| replaced.class == Class::Invalid && replaced.policy.is_none();
        if !desired.replaced.iter().any(own) && !self.is_refused(&desired, None) {
            return None;
        }
        over.objects.insert(earlier.key.clone(), earlier.clone());
        self.translator.try_route(&earlier.key, &over, self.objects)
    }

    /// Returns the earlier versions of the objects that close units of a route.
    fn instead_of(&self, plan: &RoutePlan) -> Overlay {
        let behind: BTreeSet<&ObjectKey> =
            plan.replaced.iter().filter_map(|replaced| replaced.policy.as_ref()).collect();
        let (mut broken, mut policies) = (BTreeSet::new(), Vec::new());
        for key in behind {
            let Some(policy) = self.translator.policy(key) else {
                broken.insert(key);
                continue;
            };
            policies.push(key);
            broken.extend(policy.blamed.keys());
            if policy.blamed.is_empty() || policy.has_faults_of_its_own {
                broken.insert(key);
            }
        }
        let versions = broken.into_iter().filter_map(|key| Some((key.clone(), self.candidate(key)?.object)));
        let mut over = Overlay { objects: versions.collect(), ..Overlay::default() };
        if over.is_empty() {
            return over;
        }
        for policy in policies {
            if let Some(plan) = self.translator.try_policy_under(policy, &over, self.objects) {
                over.policies.insert(policy.clone(), Arc::new(plan));
            }
        }
        over
    }
}
