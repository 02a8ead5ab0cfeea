//! Promotion: the conditions under which versions of objects become last valid.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::fault::Fault;
use holdfast_envoy::encode::names;
use holdfast_envoy::features::remote::Remote;
use holdfast_envoy::hold::{Hold, ResourceState};
use holdfast_envoy::model::BackendCluster;
use holdfast_graph::{Decision, ObjectKey, Plan};
use holdfast_translate::Translator;
use holdfast_translate::gateway::class_key;
use holdfast_translate::precedence::NOT_ENFORCED;
use holdfast_xds::{ResourceType, Snapshot};

use super::proof::Proof;
use crate::context::step_inputs::StepInputs;

/// The objects with a newest version that is not last valid yet.
#[derive(Debug, Default)]
pub(crate) struct Promotion {
    /// Objects with a newest version that is not proven yet.
    pub(crate) unpromoted: BTreeSet<ObjectKey>,
    /// Unpromoted objects that were edited, or became current again, in this step.
    pub(crate) edited: BTreeSet<ObjectKey>,
}

impl Promotion {
    /// Marks the versions of translated routes and of their policies as unproven.
    pub(crate) fn edited(&mut self, gateway: &ObjectKey, routes: &BTreeSet<ObjectKey>, translator: &Translator) {
        // Policies are included with their targets, because targets determine where their settings apply.
        let of_routes = routes.iter().filter_map(|key| translator.route(key)).flat_map(|plan| &plan.policies);
        let levels = translator.levels(gateway);
        let levels = levels.iter().flat_map(|levels| levels.tables.values().chain(levels.listeners.values()));
        let policies: BTreeSet<ObjectKey> = of_routes.chain(levels.flat_map(|level| &level.keys)).cloned().collect();
        self.edited.extend(policies.iter().cloned());
        self.unpromoted.extend(policies);
        for key in routes {
            match translator.route(key) {
                Some(plan) if plan.gateways().contains(gateway) => {
                    self.unpromoted.insert(key.clone());
                    self.edited.insert(key.clone());
                }
                _ => {
                    self.unpromoted.remove(key);
                }
            }
        }
    }
}

/// The state on which promotion depends.
pub(crate) struct PromotionInputs<'a, 'b> {
    pub(crate) gateway: &'a ObjectKey,
    pub(crate) unpromoted: &'a BTreeSet<ObjectKey>,
    pub(crate) proof: &'a Proof,
    pub(crate) hold: &'a Hold,
    /// The plan in force.
    pub(crate) plan: &'a Plan,
    pub(crate) wanted: &'a Snapshot,
    pub(crate) inputs: &'a StepInputs<'b>,
}

impl PromotionInputs<'_, '_> {
    /// Returns those unpromoted objects that are proven now, each with all objects that are proven together with it,
    /// itself included. `is_broken` checks whether an object is at fault.
    pub(crate) fn proven(
        &self,
        keys: &BTreeSet<ObjectKey>,
        is_broken: impl Fn(&ObjectKey) -> bool,
    ) -> Vec<(ObjectKey, Vec<ObjectKey>)> {
        let waiting = keys.iter().filter(|key| self.unpromoted.contains(*key));
        let proven = waiting.filter_map(|key| match self.inputs.translator.policy(key) {
            Some(plan) => {
                let is_proven = !is_broken(key) && self.is_proven_policy(key);
                let extensions = plan.secrets.iter().filter(|read| &*read.kind == kinds::GATEWAY_EXTENSION);
                is_proven.then(|| (key.clone(), extensions.chain([key]).cloned().collect()))
            }
            None => self.is_proven(key).then(|| (key.clone(), self.proven_with(key))),
        });
        proven.collect()
    }

    /// Returns a proven route with the objects that it uses.
    fn proven_with(&self, key: &ObjectKey) -> Vec<ObjectKey> {
        let plan = self.inputs.translator.route(key);
        let remotes = plan.iter().flat_map(|plan| plan.remotes()).collect::<Vec<_>>();
        let of_remotes = remotes.iter().flat_map(Remote::origins);
        let own = plan.iter().flat_map(|plan| plan.backends.iter().flat_map(BackendCluster::origins));
        let routes = plan.iter().flat_map(|plan| &plan.routes);
        let made_from = routes.flat_map(|rendered| rendered.route.origins.iter());
        let answers = made_from.filter(|key| &*key.kind == kinds::DIRECT_RESPONSE);
        let origins: BTreeSet<ObjectKey> = own.chain(of_remotes).chain(answers).cloned().collect();
        origins.into_iter().chain([key.clone()]).collect()
    }

    /// Returns the Gateway, its GatewayClass and its ListenerSets after their listeners were acknowledged, each if it
    /// has no fault.
    ///
    /// These objects are never backfilled. Their stored versions are used at a start at which they cannot be read.
    pub(crate) fn proven_anchors(&self) -> Vec<ObjectKey> {
        let pending = |(name, _): (&Arc<str>, _)| {
            self.hold.state(ResourceType::Listener, name) != Some(ResourceState::Acknowledged)
        };
        let Some(plan) = self.inputs.translator.gateway(self.gateway) else { return Vec::new() };
        if self.wanted.of(ResourceType::Listener).iter().any(pending) {
            return Vec::new();
        }
        let is_good = |key: &ObjectKey| {
            let own = self.inputs.translator.set(key).into_iter().flat_map(|claim| &claim.faults);
            let mut faults = plan.faults.iter().chain(own).filter(|fault| fault.object == *key);
            !faults.any(Fault::is_error) && self.plan.of(key).next().is_none()
        };
        let class = self.inputs.objects.get(self.gateway).and_then(|object| match &object.body {
            holdfast_api::apis::Body::Gateway(gateway) => Some(class_key(&gateway.class)),
            _ => None,
        });
        let own = [self.gateway.clone()].into_iter().filter(is_good);
        let own = own.flat_map(|gateway| class.clone().into_iter().chain([gateway]));
        let sets = plan.sets.iter().filter(|(_, set)| set.joins).map(|(set, _)| set);
        own.chain(sets.filter(|set| is_good(set)).cloned()).collect()
    }

    /// Checks whether all settings of a policy are acknowledged and enforced.
    fn is_proven_policy(&self, key: &ObjectKey) -> bool {
        let Some(plan) = self.inputs.translator.policy(key) else { return false };
        self.plan.of(key).next().is_none()
            && self.inputs.is_whole(key)
            && plan.unenforceable.is_none()
            && !plan.faults.iter().any(Fault::is_error)
            && plan.contents().next().is_some()
            && plan
                .contents()
                .map(|(_, content)| content)
                .chain(plan.filters())
                .all(|content| self.proof.is_proven(&content))
            && self.inputs.translator.governs(key, self.gateway)
    }

    /// Checks whether everything that the newest version of an object makes is acknowledged, and whether the object is
    /// served as a whole and without a fault.
    fn is_proven(&self, key: &ObjectKey) -> bool {
        let Some(plan) = self.inputs.translator.route(key) else { return false };
        // A policy of a route above that cannot be enforced is not the fault of a route that is served below another one.
        // Only contents of this Gateway are evidence: below another Gateway's routes it may be closed here throughout.
        let is_whole_below = plan.whole_below.contains(self.gateway);
        let is_own = |policy: Option<&ObjectKey>| policy.is_none() || !is_whole_below;
        let is_replaced = plan.replaced.iter().any(|replaced| is_own(replaced.policy.as_ref()));
        let is_faulty = plan.faults.iter().any(|fault| {
            let policy = fault.cause.as_ref().filter(|_| fault.reason == NOT_ENFORCED);
            fault.is_error() && is_own(policy)
        });
        let is_closed_above = |decision: &Decision| {
            let closes =
                |cause: &ObjectKey| plan.replaced.iter().any(|replaced| replaced.policy.as_ref() == Some(cause));
            let is_above = decision.causes.iter().all(closes);
            is_whole_below && decision.step.is_closed() && is_above
        };
        let current = self.plan.of(key).all(|(_, decision)| is_closed_above(decision));
        if !current || !self.inputs.is_whole(key) || is_replaced || is_faulty {
            return false;
        }
        let contents = self.inputs.translator.contents(self.gateway, plan);
        let remotes = plan.remotes();
        let mut names = plan.backends.iter().map(names::cluster).chain(remotes.iter().map(names::remote));
        let acknowledged = |kind, name: &str| self.hold.state(kind, name) == Some(ResourceState::Acknowledged);
        let clusters = names.all(|name| {
            let desired = self.hold.desired(ResourceType::Cluster, &name);
            acknowledged(ResourceType::Cluster, &name)
                || desired.is_some_and(|resource| self.proof.is_proven_cluster(&resource.version))
        });
        // Filters that the routes require are in listeners.
        let filters = self.inputs.translator.filters_of(plan);
        !contents.is_empty()
            && clusters
            && contents.iter().map(|(content, _)| content).chain(&filters).all(|content| self.proof.is_proven(content))
    }
}
