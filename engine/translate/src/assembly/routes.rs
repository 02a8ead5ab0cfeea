//! Plans of routes of all APIs.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use crate::httpproxy;
use crate::outcome::claims;
use crate::outcome::route::RoutePlan;

/// Outcomes of routes: HTTPRoutes, GRPCRoutes and root HTTPProxies.
#[derive(Debug, Default)]
pub(crate) struct RoutePlans {
    pub(crate) plans: HashMap<ObjectKey, Arc<RoutePlan>>,
    /// Routes with at least one rule that is not served as written.
    pub(crate) replaced: BTreeSet<ObjectKey>,
    /// Routes with an unusable hostname.
    pub(crate) unclaimed: BTreeSet<ObjectKey>,
}

impl RoutePlans {
    /// Sets the plan of a route and returns the last one.
    pub(crate) fn set(&mut self, key: &ObjectKey, plan: Option<&Arc<RoutePlan>>) -> Option<Arc<RoutePlan>> {
        // HTTPProxies are recorded individually, see `set_share`.
        if !httpproxy::is_proxy(key) {
            self.set_replaced(key, plan.is_some_and(|plan| !plan.replaced.is_empty()));
        }
        if plan.is_some_and(|plan| plan.faults.iter().any(claims::is_unusable_hostname)) {
            self.unclaimed.insert(key.clone());
        } else {
            self.unclaimed.remove(key);
        }
        match plan {
            Some(plan) => self.plans.insert(key.clone(), plan.clone()),
            None => self.plans.remove(key),
        }
    }

    /// Records whether a route object has a rule that is not served as written.
    pub(crate) fn set_replaced(&mut self, key: &ObjectKey, is_replaced: bool) {
        if is_replaced {
            self.replaced.insert(key.clone());
        } else {
            self.replaced.remove(key);
        }
    }
}
