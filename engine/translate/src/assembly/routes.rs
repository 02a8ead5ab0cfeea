//! Plans of routes of all APIs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_graph::{ObjectKey, SortedSet, visits};

use crate::httpproxy;
use crate::outcome::claims::{self, Claims, ListenerId, Parent};
use crate::outcome::route::RoutePlan;

/// Outcomes of routes: HTTPRoutes, GRPCRoutes and root HTTPProxies.
#[derive(Debug, Default)]
pub(crate) struct RoutePlans {
    plans: HashMap<ObjectKey, Arc<RoutePlan>>,
    pub(crate) attached: AttachedRoutes,
    /// Routes with faults, or with parts that are replaced.
    reported: BTreeSet<ObjectKey>,
    /// Root HTTPProxies.
    proxies: BTreeSet<ObjectKey>,
    /// Routes with at least one rule that is not served as written.
    pub(crate) replaced: BTreeSet<ObjectKey>,
    /// Routes with an unusable hostname.
    pub(crate) unclaimed: BTreeSet<ObjectKey>,
    /// Routes with a plan that was set since [`take_changed`](Self::take_changed), and HTTPProxies that such a route
    /// includes, or included before.
    changed: BTreeSet<ObjectKey>,
}

impl RoutePlans {
    /// Returns the plan of a route.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<RoutePlan>> {
        self.plans.get(key)
    }

    /// Returns the plan of a route with its key.
    pub(crate) fn get_key_value(&self, key: &ObjectKey) -> Option<(&ObjectKey, &Arc<RoutePlan>)> {
        self.plans.get_key_value(key)
    }

    /// Returns the plans with faults or replaced parts, in order.
    pub(crate) fn reported(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<RoutePlan>)> {
        visits::routes(self.reported.len());
        self.reported.iter().filter_map(|key| self.plans.get_key_value(key))
    }

    /// Returns the plans of root HTTPProxies, in order.
    pub(crate) fn proxies(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<RoutePlan>)> {
        visits::routes(self.proxies.len());
        self.proxies.iter().filter_map(|key| self.plans.get_key_value(key))
    }

    /// Returns all plans, in any order: a pass over all routes, which counts as visits.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<RoutePlan>)> + Clone {
        visits::routes(self.plans.len());
        self.plans.iter()
    }

    /// Sets the plan of a route and returns the last one.
    pub(crate) fn set(
        &mut self,
        key: &ObjectKey,
        plan: Option<&Arc<RoutePlan>>,
        claims: Option<&Claims>,
    ) -> Option<Arc<RoutePlan>> {
        self.changed.insert(key.clone());
        if plan.is_some_and(|plan| !plan.faults.is_empty() || !plan.replaced.is_empty()) {
            self.reported.insert(key.clone());
        } else {
            self.reported.remove(key);
        }
        self.attached.set(key, plan.map(|plan| attached_at(key, plan, claims)).unwrap_or_default());
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
            Some(plan) => {
                if httpproxy::is_proxy(key) {
                    self.proxies.insert(key.clone());
                }
                self.plans.insert(key.clone(), plan.clone())
            }
            None => {
                self.proxies.remove(key);
                self.plans.remove(key)
            }
        }
    }

    /// Records the HTTPProxies that a root includes, or included before its plan was set.
    pub(crate) fn members_changed<'a>(&mut self, members: impl Iterator<Item = &'a ObjectKey>) {
        self.changed.extend(members.cloned());
    }

    /// Returns the routes with a plan that was set since the last call, with the HTTPProxies that they include.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.changed)
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

/// The numbers of route objects at listeners.
#[derive(Debug, Default)]
pub(crate) struct AttachedRoutes {
    listeners: HashMap<ObjectKey, SortedSet<ListenerId>>,
    pub(crate) counts: BTreeMap<ListenerId, i32>,
}

impl AttachedRoutes {
    /// Sets the listeners of a route object.
    fn set(&mut self, key: &ObjectKey, listeners: SortedSet<ListenerId>) {
        if self.listeners.get(key).map_or(listeners.is_empty(), |before| *before == listeners) {
            return;
        }
        for listener in self.listeners.remove(key).into_iter().flatten() {
            if let Some(count) = self.counts.get_mut(&listener) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&listener);
                }
            }
        }
        for listener in &listeners {
            *self.counts.entry(listener.clone()).or_default() += 1;
        }
        if !listeners.is_empty() {
            self.listeners.insert(key.clone(), listeners);
        }
    }
}

/// Returns the listeners to which a route object is attached.
fn attached_at(key: &ObjectKey, plan: &RoutePlan, claims: Option<&Claims>) -> SortedSet<ListenerId> {
    // A TCPRoute or UDPRoute is attached also where an older one has all that the listener receives.
    let claims = claims.filter(|_| kinds::PORT_ROUTES.contains(&&*key.kind));
    let claimed = |parent: &Parent| {
        let mut all = claims.into_iter().flat_map(|claims| &claims.parents);
        all.find(|one| (one.origin, &one.gateway) == (parent.origin, &parent.gateway))
    };
    let accepted = plan.parents.iter().filter(|parent| parent.accepted.status == "True" && !parent.is_route());
    let attachments = accepted.flat_map(|parent| &claimed(parent).unwrap_or(parent).attachments);
    attachments.map(|attachment| attachment.listener.clone()).collect()
}
