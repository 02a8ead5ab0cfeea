//! Promotion: the conditions under which versions of objects become last valid.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::fault::Fault;
use holdfast_envoy::encode::names;
use holdfast_envoy::features::remote::Remote;
use holdfast_envoy::hold::ResourceState;
use holdfast_envoy::model::BackendCluster;
use holdfast_graph::{Node, ObjectKey};
use holdfast_store::Change;
use holdfast_translate::Translator;
use holdfast_translate::gateway::class_key;
use holdfast_xds::ResourceType;

use crate::context::step_inputs::StepInputs;
use crate::scope::FallbackScope;

impl FallbackScope {
    /// Marks the versions of translated routes as unproven.
    pub fn edited(&mut self, routes: &BTreeSet<ObjectKey>, translator: &Translator) {
        // Policies are included with their targets, because targets determine where their settings apply.
        let of_routes = routes.iter().filter_map(|key| translator.route(key)).flat_map(|plan| &plan.policies);
        let levels = translator.levels(&self.gateway);
        let levels = levels.iter().flat_map(|levels| levels.tables.values().chain(levels.listeners.values()));
        let policies: BTreeSet<ObjectKey> = of_routes.chain(levels.flat_map(|level| &level.keys)).cloned().collect();
        self.edited.extend(policies.iter().cloned());
        self.unpromoted.extend(policies);
        for key in routes {
            self.counted.remove(key);
            match translator.route(key) {
                Some(plan) if plan.gateways().contains(&self.gateway) => {
                    self.unpromoted.insert(key.clone());
                    self.edited.insert(key.clone());
                }
                _ => {
                    self.unpromoted.remove(key);
                }
            }
        }
    }

    /// Promotes the objects with all parts acknowledged: their current version becomes last valid.
    pub fn promote(&mut self, keys: &BTreeSet<ObjectKey>, inputs: &StepInputs<'_>) {
        let waiting: Vec<ObjectKey> = keys.iter().filter(|key| self.unpromoted.contains(*key)).cloned().collect();
        for key in waiting {
            if inputs.translator.policy(&key).is_some() {
                if self.is_proven_policy(&key, inputs) {
                    self.unpromoted.remove(&key);
                    let read = inputs.translator.policy(&key).into_iter().flat_map(|plan| &plan.secrets);
                    let extensions = read.filter(|read| &*read.kind == kinds::GATEWAY_EXTENSION).cloned();
                    for key in extensions.chain([key.clone()]).collect::<Vec<_>>() {
                        self.promote_one(&key, inputs);
                    }
                }
                continue;
            }
            if !self.is_proven(&key, inputs) {
                continue;
            }
            self.unpromoted.remove(&key);
            let plan = inputs.translator.route(&key).cloned();
            let remotes = plan.iter().flat_map(|plan| plan.remotes()).collect::<Vec<_>>();
            let of_remotes = remotes.iter().flat_map(Remote::origins);
            let own = plan.iter().flat_map(|plan| plan.backends.iter().flat_map(BackendCluster::origins));
            let routes = plan.iter().flat_map(|plan| &plan.routes);
            let made_from = routes.flat_map(|rendered| rendered.route.origins.iter());
            let answers = made_from.filter(|key| &*key.kind == kinds::DIRECT_RESPONSE);
            let origins: BTreeSet<ObjectKey> = own.chain(of_remotes).chain(answers).cloned().collect();
            for key in origins.iter().chain([&key]) {
                self.promote_one(key, inputs);
            }
        }
    }

    /// Promotes the current version of an object, if it could be read completely.
    pub(crate) fn promote_one(&mut self, key: &ObjectKey, inputs: &StepInputs<'_>) {
        let now = inputs.now();
        if !inputs.follows
            && inputs.is_whole(key)
            && let Some(object) = inputs.objects.get(key)
            && self.last_valid.promote(object, now)
            && let Some(stored) = holdfast_api::apis::document::stored(object, now)
        {
            self.record(Change::Promote(self.stored_scope(), stored));
        }
    }

    /// Promotes the Gateway, its GatewayClass and its ListenerSets after their listeners were acknowledged, each if it
    /// has no fault.
    ///
    /// These objects are never backfilled. Their stored versions are used at a start at which they cannot be read.
    pub(crate) fn promote_anchors(&mut self, inputs: &StepInputs<'_>) {
        let pending = |(name, _): (&Arc<str>, _)| {
            self.hold.state(ResourceType::Listener, name) != Some(ResourceState::Acknowledged)
        };
        let Some(plan) = inputs.translator.gateway(&self.gateway) else { return };
        if self.wanted.of(ResourceType::Listener).iter().any(pending) {
            return;
        }
        let is_good = |key: &ObjectKey| {
            let own = inputs.translator.set(key).into_iter().flat_map(|claim| &claim.faults);
            let mut faults = plan.faults.iter().chain(own).filter(|fault| fault.object == *key);
            !faults.any(Fault::is_error) && self.derived.plan.of(key).next().is_none()
        };
        let class = inputs.objects.get(&self.gateway).and_then(|object| match &object.body {
            holdfast_api::apis::Body::Gateway(gateway) => Some(class_key(&gateway.class)),
            _ => None,
        });
        let own = [self.gateway.clone()].into_iter().filter(is_good);
        let own: Vec<ObjectKey> = own.flat_map(|gateway| class.clone().into_iter().chain([gateway])).collect();
        let sets = plan.sets.iter().filter(|(_, set)| set.joins).map(|(set, _)| set);
        let sets: Vec<ObjectKey> = sets.filter(|set| is_good(set)).cloned().collect();
        for key in own.iter().chain(&sets) {
            self.promote_one(key, inputs);
        }
    }

    /// Promotes objects that have waited for clusters or listeners which are acknowledged now.
    pub(crate) fn promote_waiting(&mut self, inputs: &StepInputs<'_>) {
        let waiting = self.unpromoted.clone();
        self.promote(&waiting, inputs);
    }

    /// Checks whether all settings of a policy are acknowledged and enforced.
    fn is_proven_policy(&self, key: &ObjectKey, inputs: &StepInputs<'_>) -> bool {
        let Some(plan) = inputs.translator.policy(key) else { return false };
        let current =
            self.derived.plan.of(key).next().is_none() && !self.derived.broken.contains_key(&Node::whole(key.clone()));
        current
            && inputs.is_whole(key)
            && plan.unenforceable.is_none()
            && !plan.faults.iter().any(Fault::is_error)
            && plan.contents().next().is_some()
            && plan
                .contents()
                .map(|(_, content)| content)
                .chain(plan.filters())
                .all(|content| self.proof.is_proven(&content))
            && inputs.translator.governs(key, &self.gateway)
    }

    /// Checks whether everything that the newest version of an object makes is acknowledged, and whether the object is
    /// served as a whole and without a fault.
    fn is_proven(&self, key: &ObjectKey, inputs: &StepInputs<'_>) -> bool {
        let Some(plan) = inputs.translator.route(key) else { return false };
        let current = self.derived.plan.of(key).next().is_none();
        let whole = inputs.is_whole(key) && plan.replaced.is_empty();
        if !current || !whole || plan.faults.iter().any(Fault::is_error) {
            return false;
        }
        let contents = inputs.translator.contents(&self.gateway, plan);
        let remotes = plan.remotes();
        let mut names = plan.backends.iter().map(names::cluster).chain(remotes.iter().map(names::remote));
        let acknowledged = |kind, name: &str| self.hold.state(kind, name) == Some(ResourceState::Acknowledged);
        let clusters = names.all(|name| {
            let desired = self.hold.desired(ResourceType::Cluster, &name);
            acknowledged(ResourceType::Cluster, &name)
                || desired.is_some_and(|resource| self.proof.is_proven_cluster(&resource.version))
        });
        // Filters that the routes require are in listeners.
        let filters = inputs.translator.filters_of(plan);
        !contents.is_empty()
            && clusters
            && contents.iter().map(|(content, _)| content).chain(&filters).all(|content| self.proof.is_proven(content))
    }
}
