//! Updates of the translator after changes of HTTPProxies, and the roots that include each HTTPProxy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::object::{Age, Object};
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_envoy::model::table::Host;
use holdfast_graph::ObjectKey;

use super::{Run, Translator, Unit};
use crate::httpproxy::{self, ClosedUnits, is_ours, listeners};
use crate::incremental::guard;
use crate::outcome::claims::Claims;
use crate::outcome::finding::Finding;
use crate::outcome::host::{Claimant, HostClaim};
use crate::outcome::route::RoutePlan;
use crate::overlay::Overlay;
use crate::reader::Input;

impl Translator {
    /// Reads the claim of a root HTTPProxy.
    pub(super) fn redo_host(&mut self, unit: &Unit, key: &ObjectKey, run: &mut Run<'_>) {
        let (claim, edges) =
            self.read(unit, run.objects, |settings, reader| httpproxy::host::claim(key, settings, reader));
        let claim = match claim {
            Some(claim) => claim.map(|claim| HostClaim { edges, ..claim }),
            None => httpproxy::host::failed(key, self.outcomes.hosts.get(key).map(|claim| &**claim)),
        };
        // The certificate of the claim belongs to the listeners, so the Gateway of HTTPProxies counts as
        // translated even if the claim is unchanged.
        run.changes.gateways.insert(httpproxy::listeners::gateway(&self.settings));
        self.set_host(unit, key, claim);
    }

    /// Translates a root HTTPProxy with its includes.
    pub(super) fn redo_root(&mut self, unit: &Unit, key: &ObjectKey, run: &mut Run<'_>) {
        let open = ClosedUnits::new();
        let (plan, mut edges) =
            self.read(unit, run.objects, |settings, reader| httpproxy::plan(key, &open, settings, reader));
        let claim = self.outcomes.hosts.get(key).cloned();
        let plan = plan.unwrap_or_else(|| httpproxy::failed(run.objects.get(key)?, claim.as_deref(), &self.settings));
        edges.extend(claim.iter().flat_map(|claim| claim.edges.iter().cloned()));
        run.graph.replace(key, edges);
        let members = |plan: Option<&RoutePlan>| plan.map(|plan| plan.members.clone()).unwrap_or_default();
        let (before, after) = (members(self.routes.get(key).map(|plan| &**plan)), members(plan.as_ref()));
        run.changes.routes.insert(key.clone());
        run.changes.routes.extend(before.union(&after).cloned());
        self.httpproxy.set_members(key, &before, &after);
        self.routes.members_changed(before.union(&after));
        let plan = plan.map(Arc::new);
        self.set_route(key, plan.clone());
        let mut own = plan.map(|plan| shares(&plan)).unwrap_or_default();
        for member in before.union(&after) {
            let mut share = own.remove(member);
            let others = self.httpproxy.included.get(member).into_iter().flatten().filter(|root| *root != key);
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
                    self.httpproxy.shares.remove(member);
                    self.routes.replaced.remove(member);
                }
            }
        }
    }

    /// Reads an ExtensionService.
    pub(super) fn redo_extension(&mut self, unit: &Unit, key: &ObjectKey, run: &mut Run<'_>) {
        let (read, edges) = self.read(unit, run.objects, |_, reader| httpproxy::extension::read(key, reader));
        run.graph.replace(key, edges);
        let failed = || vec![Finding::error(key, "", "SpecError", "InternalError", guard::fault(key).message)];
        match read {
            Some(Some(extension)) => drop(self.httpproxy.extensions.insert(key.clone(), extension.findings)),
            Some(None) => {
                self.httpproxy.extensions.remove(key);
                self.units.forget(unit);
            }
            None => drop(self.httpproxy.extensions.insert(key.clone(), failed())),
        }
    }

    /// Updates the hosts that a route claims.
    pub(crate) fn claimed(&mut self, key: &ObjectKey, age: Option<&Age>, old: Option<&Claims>, new: Option<&Claims>) {
        let Some(gateway) = self.settings.proxies.gateway.clone() else { return };
        let hosts = |claims: Option<&Claims>| {
            let mut hosts: BTreeMap<Host, BTreeSet<Arc<str>>> = BTreeMap::new();
            let attachments = claims.into_iter().flat_map(|claims| claims.attachments());
            for attachment in attachments.filter(|attachment| attachment.listener.gateway == gateway) {
                for host in &attachment.hosts {
                    hosts.entry(host.clone()).or_default().insert(attachment.listener.name.clone());
                }
            }
            hosts
        };
        let (before, mut after) = (hosts(old), hosts(new));
        let all: BTreeSet<Host> = before.into_keys().chain(after.keys().cloned()).collect();
        for host in all {
            let claimants = self.outcomes.claimants.entry(host.clone()).or_default();
            let claimant = after.remove(&host).zip(age);
            let claimant =
                claimant.map(|(listeners, age)| Claimant { host: host.clone(), age: age.clone(), listeners });
            let was = match claimant.clone() {
                Some(claimant) => claimants.insert(key.clone(), claimant),
                None => claimants.remove(key),
            };
            if claimants.is_empty() {
                self.outcomes.claimants.remove(&host);
            }
            if was != claimant {
                // A wildcard host that covers the host may be affected as well.
                host.and_above().for_each(|host| self.units.mark(&Input::Claimants(host)));
            }
        }
    }

    /// Processes a changed or deleted HTTPProxy.
    pub(crate) fn proxy_changed(&mut self, key: &ObjectKey, new: Option<&Object>) {
        let is_child = new.is_some_and(|object| match &object.body {
            Body::HttpProxy(proxy) => proxy.virtual_host.is_none() && is_ours(object, proxy, &self.settings),
            _ => false,
        });
        if is_child {
            self.httpproxy.children.insert(key.clone());
        } else {
            self.httpproxy.children.remove(key);
        }
        self.units.schedule(Unit::Host(key.clone()));
        self.units.schedule(Unit::Route(key.clone()));
    }

    fn set_host(&mut self, unit: &Unit, key: &ObjectKey, claim: Option<HostClaim>) {
        if self.set_outcome(unit, key, claim) {
            self.units.mark(&Input::Hosts);
            self.units.schedule(Unit::Route(key.clone()));
            self.units.schedule(Unit::Gateway(listeners::gateway(&self.settings)));
        }
    }

    fn set_share(&mut self, key: &ObjectKey, share: RoutePlan) {
        self.routes.set_replaced(key, !share.replaced.is_empty());
        self.httpproxy.shares.insert(key.clone(), Arc::new(share));
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
        guard::guarded(|| httpproxy::plan(root, &over.closed, &self.settings, &mut reader)).flatten()
    }

    /// Returns the plan of a root with its includes, as desired.
    pub fn root(&self, root: &ObjectKey) -> Option<&Arc<RoutePlan>> {
        self.routes.get(root)
    }

    /// Returns the roots that include an HTTPProxy, or that reference one that is unreadable.
    pub fn roots_reading(&self, key: &ObjectKey) -> BTreeSet<ObjectKey> {
        match self.httpproxy.included.get(key) {
            Some(roots) => roots.clone(),
            None => self.routes_reading(key).into_iter().filter(httpproxy::is_proxy).collect(),
        }
    }

    /// Returns the roots that include an HTTPProxy.
    pub fn roots_of(&self, key: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.httpproxy.included.get(key).into_iter().flatten()
    }

    /// Returns the plans with routes of an object: its own plan, or those of the roots that include it.
    fn plans_of(&self, key: &ObjectKey) -> Vec<(&ObjectKey, &Arc<RoutePlan>)> {
        match self.httpproxy.included.get(key) {
            Some(roots) => roots.iter().filter_map(|root| self.routes.get_key_value(root)).collect(),
            None => self.routes.get_key_value(key).into_iter().collect(),
        }
    }

    /// Returns the findings about an HTTPProxy; `None` if it is not served at all.
    pub fn proxy_findings(&self, key: &ObjectKey) -> Option<BTreeSet<Finding>> {
        if self.httpproxy.children.contains(key) && !self.httpproxy.included.contains_key(key) {
            return Some([httpproxy::orphaned(key)].into());
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
        for setting in rendered.policy_settings().iter().filter(|setting| setting.addition().is_some()) {
            if let Some(share) = shares.get_mut(setting.policy()) {
                share.additions.insert(setting.clone());
            }
        }
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
    one.additions.extend(other.additions);
    one.faults.extend(other.faults);
    one.replaced.extend(other.replaced);
    one.faults.sort_unstable();
    one.faults.dedup();
    one.replaced.sort_unstable();
    one.replaced.dedup();
    one
}
