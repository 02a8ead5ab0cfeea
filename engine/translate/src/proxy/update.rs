//! Updates of the translator after changes of HTTPProxies, and the roots that include each HTTPProxy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::Object;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_graph::{Graph, ObjectKey};

use super::host::HostClaim;
use super::{ClosedUnits, is_ours, listeners};
use crate::guard;
use crate::overlay::Overlay;
use crate::proxies::finding::Finding;
use crate::proxies::status::ORPHANED;
use crate::reader::Input;
use crate::route::RoutePlan;
use crate::{Changes, Translator, Unit};

impl Translator {
    /// Processes a changed or deleted HTTPProxy.
    pub(crate) fn proxy_changed(&mut self, key: &ObjectKey, new: Option<&Object>) {
        let is_child = new.is_some_and(|object| match &object.body {
            Body::HttpProxy(proxy) => proxy.virtual_host.is_none() && is_ours(object, proxy, &self.settings),
            _ => false,
        });
        if is_child {
            self.children.insert(key.clone());
        } else {
            self.children.remove(key);
        }
        self.dirty.insert(Unit::Host(key.clone()));
        self.dirty.insert(Unit::Route(key.clone()));
    }

    pub(crate) fn set_host(&mut self, key: &ObjectKey, claim: Option<HostClaim>) {
        if self.hosts.get(key).map(|known| &**known) == claim.as_ref() {
            if claim.is_none() {
                self.forget(&Unit::Host(key.clone()));
            }
            return;
        }
        match claim {
            Some(claim) => {
                self.hosts.insert(key.clone(), Arc::new(claim));
            }
            None => {
                self.hosts.remove(key);
                self.forget(&Unit::Host(key.clone()));
            }
        }
        self.mark(&Input::Host(key.clone()));
        self.mark(&Input::Hosts);
        self.dirty.insert(Unit::Route(key.clone()));
        self.dirty.insert(Unit::Gateway(listeners::gateway(&self.settings)));
    }

    pub(crate) fn redo_proxy(
        &mut self,
        unit: &Unit,
        key: &ObjectKey,
        objects: &ObjectSnapshot,
        graph: &mut Graph,
        changes: &mut Changes,
    ) {
        let open = ClosedUnits::new();
        let (plan, mut edges) = self.read(unit, objects, |settings, reader| super::plan(key, &open, settings, reader));
        let claim = self.hosts.get(key).cloned();
        let plan = plan.unwrap_or_else(|| super::failed(objects.get(key)?, claim.as_deref(), &self.settings));
        edges.extend(claim.iter().flat_map(|claim| claim.edges.iter().cloned()));
        graph.replace(key, edges);
        let members = |plan: Option<&RoutePlan>| plan.map(|plan| plan.members.clone()).unwrap_or_default();
        let (before, after) = (members(self.routes.get(key).map(|plan| &**plan)), members(plan.as_ref()));
        changes.routes.insert(key.clone());
        changes.routes.extend(before.union(&after).cloned());
        for gone in before.difference(&after) {
            if let Some(roots) = self.included.get_mut(gone) {
                roots.remove(key);
                if roots.is_empty() {
                    self.included.remove(gone);
                }
            }
        }
        for member in &after {
            self.included.entry(member.clone()).or_default().insert(key.clone());
        }
        let plan = plan.map(Arc::new);
        self.set_route(key, plan.clone());
        let mut own = plan.map(|plan| shares(&plan)).unwrap_or_default();
        for member in before.union(&after) {
            let mut share = own.remove(member);
            let others = self.included.get(member).into_iter().flatten().filter(|root| *root != key);
            for other in others.filter_map(|root| self.routes.get(root)) {
                let theirs = shares(other).remove(member);
                share = match (share, theirs) {
                    (Some(share), Some(theirs)) => Some(together(share, theirs)),
                    (share, theirs) => share.or(theirs),
                };
            }
            match share {
                Some(share) => self.set_share(member, share),
                None => {
                    self.shares.remove(member);
                    self.replaced_routes.remove(member);
                }
            }
        }
    }

    fn set_share(&mut self, key: &ObjectKey, share: RoutePlan) {
        if share.replaced.is_empty() {
            self.replaced_routes.remove(key);
        } else {
            self.replaced_routes.insert(key.clone());
        }
        self.shares.insert(key.clone(), Arc::new(share));
    }

    /// Returns an HTTPProxy's share in the plans of its roots under an overlay.
    pub(crate) fn try_share(&self, key: &ObjectKey, over: &Overlay, objects: &ObjectSnapshot) -> Option<RoutePlan> {
        let plans = self.roots_reading(key).into_iter().filter_map(|root| self.try_root(&root, over, objects));
        plans.filter_map(|plan| shares(&plan).remove(key)).reduce(together)
    }

    /// Returns an HTTPProxy's share in plans of roots.
    pub(crate) fn share_of<'a>(
        &self,
        key: &ObjectKey,
        plans: impl Iterator<Item = &'a Arc<RoutePlan>>,
    ) -> Option<RoutePlan> {
        plans.filter_map(|plan| shares(plan).remove(key)).reduce(together)
    }

    /// Returns the plan of a root with its includes under an overlay.
    pub fn try_root(&self, root: &ObjectKey, over: &Overlay, objects: &ObjectSnapshot) -> Option<RoutePlan> {
        let mut reader = self.reader(Some(over), objects);
        guard::guarded(|| super::plan(root, &over.closed, &self.settings, &mut reader)).flatten()
    }

    /// Returns the plan of a root with its includes, as desired.
    pub fn root(&self, root: &ObjectKey) -> Option<&Arc<RoutePlan>> {
        self.routes.get(root)
    }

    /// Returns the roots that include an HTTPProxy, or that reference one that is unreadable.
    pub fn roots_reading(&self, key: &ObjectKey) -> BTreeSet<ObjectKey> {
        match self.included.get(key) {
            Some(roots) => roots.clone(),
            None => self.routes_reading(key).into_iter().filter(super::is_proxy).collect(),
        }
    }

    /// Returns the roots that include an HTTPProxy.
    pub fn roots_of(&self, key: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.included.get(key).into_iter().flatten()
    }

    /// Returns the plans with routes of an object: its own plan, or those of the roots that include it.
    fn plans_of(&self, key: &ObjectKey) -> Vec<(&ObjectKey, &Arc<RoutePlan>)> {
        match self.included.get(key) {
            Some(roots) => roots.iter().filter_map(|root| self.routes.get_key_value(root)).collect(),
            None => self.routes.get_key_value(key).into_iter().collect(),
        }
    }

    /// Returns the HTTPProxies that no root includes.
    fn orphans(&self) -> impl Iterator<Item = &ObjectKey> {
        self.children.iter().filter(|child| !self.included.contains_key(*child))
    }

    /// Returns the faults of HTTPProxies that no root includes.
    pub(crate) fn orphan_faults(&self) -> impl Iterator<Item = Fault> {
        self.orphans().map(|child| orphaned(child).fault())
    }

    /// Returns the findings about an HTTPProxy; `None` if it is not served at all.
    pub fn proxy_findings(&self, key: &ObjectKey) -> Option<BTreeSet<Finding>> {
        if self.children.contains(key) && !self.included.contains_key(key) {
            return Some([orphaned(key)].into());
        }
        let plans = self.plans_of(key);
        if plans.is_empty() {
            return None;
        }
        let findings = plans.into_iter().flat_map(|(_, plan)| &plan.findings);
        Some(findings.filter(|finding| finding.object == *key).cloned().collect())
    }
}

/// Returns each HTTPProxy's share in the plan of a root: its routes, faults and replacements.
fn shares(plan: &RoutePlan) -> BTreeMap<ObjectKey, RoutePlan> {
    let empty = || RoutePlan { places: plan.places.clone(), ..RoutePlan::default() };
    let mut shares: BTreeMap<ObjectKey, RoutePlan> =
        plan.members.iter().map(|member| (member.clone(), empty())).collect();
    for rendered in &plan.routes {
        let Some(share) = shares.get_mut(&rendered.route.key) else { continue };
        share.routes.push(rendered.clone());
        share.backends.extend(rendered.route.backends().cloned());
    }
    for fault in &plan.faults {
        if let Some(share) = shares.get_mut(&fault.object) {
            share.faults.push(fault.clone());
        }
    }
    for replaced in &plan.replaced {
        if let Some(share) = shares.get_mut(&replaced.object) {
            share.replaced.push(replaced.clone());
        }
    }
    shares
}

/// Merges the shares of an HTTPProxy in two hosts.
fn together(mut one: RoutePlan, other: RoutePlan) -> RoutePlan {
    one.routes.extend(other.routes);
    one.places.extend(other.places);
    one.backends.extend(other.backends);
    one.faults.extend(other.faults);
    one.replaced.extend(other.replaced);
    one.faults.sort_unstable();
    one.faults.dedup();
    one.replaced.sort_unstable();
    one.replaced.dedup();
    one
}

fn orphaned(child: &ObjectKey) -> Finding {
    // The only problem is the missing include: the HTTPProxy is not served.
    Finding::error(child, "", "Orphaned", "Orphaned", ORPHANED).of_class(Class::Referential)
}
