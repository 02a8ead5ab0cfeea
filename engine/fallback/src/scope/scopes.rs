//! All scopes of all Gateways: creation, restart, and publication.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::object::Object;
use holdfast_envoy::hold::Refusal;
use holdfast_graph::ObjectKey;
use holdfast_store::{Batch, Change};
use holdfast_translate::fleet::FleetId;
use holdfast_translate::httpproxy::listeners;
use holdfast_xds::{EnvoyId, Offers, ResourceType, Snapshot, Waiting};

use super::replicas::Learned;
use super::{FallbackScope, apart, translate};
use crate::attribution::Attributed;
use crate::attribution::verdicts::edited;
use crate::context::next::Next;
use crate::context::step_inputs::StepInputs;
use crate::evidence::last_valid::Version;
use crate::persistence::restored::{Restored, RestoredScope};
use crate::rollout::Offered;
use crate::scope::event::Action;

/// Limit of builds of Envoy in one fleet with a scope of their own. An Envoy of a further build is served by the first
/// scope.
pub(crate) const BUILDS_MAX: usize = 8;

/// All scopes of all Gateways.
#[derive(Debug, Default)]
pub struct FallbackScopes {
    pub(crate) gateways: BTreeMap<Arc<str>, Vec<FallbackScope>>,
    /// The stored state of an earlier run, for Gateways that do not exist yet.
    restored: BTreeMap<Arc<str>, Vec<RestoredScope>>,
    pub(crate) offered: BTreeMap<Arc<str>, Offers>,
    /// Envoys that connected before their Gateway was known, and whether they have a configuration from an earlier
    /// stream.
    pub(super) early: BTreeMap<Arc<str>, Vec<(EnvoyId, bool)>>,
    /// The configuration of Envoys that stayed connected when their Gateway was deleted.
    pub(crate) left: BTreeMap<Arc<str>, Vec<RestoredScope>>,
    /// The number of publications by Gateway.
    pub(super) generations: BTreeMap<Arc<str>, u64>,
    pub(super) touched: BTreeSet<Arc<str>>,
    /// Changes to be stored for objects and Gateways that were deleted.
    pub(crate) gone: Batch,
    /// Whether every Gateway is to be reconciled with the next change.
    is_dirty: bool,
    /// Whether all objects have been listed once.
    pub(crate) listed: bool,
    /// Whether another replica is the leader.
    pub(crate) follows: bool,
    /// The state that the leader shared last.
    pub(crate) learned: Learned,
}

impl FallbackScopes {
    /// Returns all scopes, in order.
    pub fn iter(&self) -> impl Iterator<Item = &FallbackScope> {
        self.gateways.values().flatten()
    }

    /// Returns all Gateways with their scopes. A Gateway known only from the store of an earlier run has no scopes.
    pub fn gateways(&self) -> BTreeMap<&Arc<str>, &[FallbackScope]> {
        let stored = self.restored.keys().filter(|name| self.offered.contains_key(*name));
        let mut all: BTreeMap<&Arc<str>, &[FallbackScope]> = stored.map(|name| (name, &[][..])).collect();
        all.extend(self.gateways.iter().map(|(name, scopes)| (name, scopes.as_slice())));
        all
    }

    /// Returns the number of publications for a Gateway.
    pub fn generation(&self, gateway: &str) -> u64 {
        self.generations.get(gateway).copied().unwrap_or(0)
    }

    /// Returns the scopes of a Gateway (`namespace/name`). The first one is served to Envoys of unknown builds.
    pub fn of(&self, gateway: &str) -> &[FallbackScope] {
        self.gateways.get(gateway).map(Vec::as_slice).unwrap_or_default()
    }

    /// Removes an object that was deleted or replaced by another object of the same name.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.gateways.values_mut().flatten().for_each(|scope| scope.forget(key));
        for restored in self.restored.values_mut().chain(self.learned.values_mut()).flatten() {
            restored.forget(key);
        }
        self.gone.push(Change::Forget(key.clone()));
    }

    /// Marks every Gateway as dirty for the next change.
    pub fn mark_dirty(&mut self) {
        self.is_dirty = true;
    }

    /// Returns the newest version of an object that any scope knows to be good.
    pub fn last_valid(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        let scopes = self.iter().filter_map(|scope| scope.evidence.last_valid.of(key, None).next().cloned());
        let stored = self.restored.values().flatten().filter_map(|restored| restored.last_valid(key));
        let closed = self.closed(key).map(|(_, since)| since);
        let newer = |version: &Version| closed.is_none_or(|closed| version.since > closed);
        scopes.chain(stored).filter(newer).max_by_key(|version| version.since).map(|version| version.object)
    }

    /// Returns an object with credentials that an earlier run did not store, in the form that closes its requests.
    /// The second value is the time of its proof, in seconds of Unix time.
    pub fn closed(&self, key: &ObjectKey) -> Option<(Arc<Object>, i64)> {
        let closed = self.restored.values().flatten().filter_map(|restored| restored.closed(key));
        closed.max_by_key(|(_, since)| *since)
    }

    /// Restores the stored state of an earlier run. Envoys without a configuration are offered it until all objects are
    /// known.
    pub fn restore(&mut self, restored: Restored) -> Vec<Action> {
        for scope in restored.scopes {
            self.restored.entry(scope.gateway.clone()).or_default().push(scope);
        }
        let mut actions = Vec::new();
        for (gateway, scopes) in &self.restored {
            let mut offers = Offers { fresh_only: true, ..Offers::default() };
            for scope in scopes.iter().filter(|scope| scope.serves()) {
                offers.everyone = scope.snapshot.clone();
                offers.builds.insert(scope.build.clone(), scope.snapshot.clone());
            }
            if !offers.builds.is_empty() {
                self.offered.insert(gateway.clone(), offers.clone());
                *self.generations.entry(gateway.clone()).or_insert(0) += 1;
                actions.push(Action::Publish { gateway: gateway.clone(), offers });
            }
        }
        actions
    }

    /// Translates changed objects, and reconciles the affected scopes.
    pub fn translate(&mut self, inputs: &mut StepInputs<'_>, actions: &mut Vec<Action>) {
        let mut changes = translate(inputs);
        if self.lend(&changes.gateways, inputs) {
            changes.add(translate(inputs));
        }
        self.repeat_meanwhile_checks();
        for key in changes.withdrawn {
            self.withdraw(key.namespaced_name().into(), actions);
        }
        self.listed = true;
        self.drop_what_is_gone(inputs, actions);
        let mut touched: BTreeSet<ObjectKey> = changes.fleets.into_iter().map(|(id, _)| id.gateway).collect();
        touched.extend(changes.endpoints);
        // An earlier version of a route may have lost a backend.
        let mut replan: BTreeSet<ObjectKey> = changes.gateways.into_iter().chain(changes.stand_ins).collect();
        for key in &changes.routes {
            replan.extend(inputs.translator.route(key).iter().flat_map(|plan| plan.concerns()).cloned());
        }
        // An object that is unusable now is broken wherever a version of it is known.
        for scope in self.gateways.values().flatten() {
            let known = inputs.unusable.iter().any(|key| scope.evidence.last_valid.of(key, None).next().is_some());
            // The missing backend of an earlier version may exist again, and no translated unit reads it.
            if known || !scope.derived.desired_rules.is_empty() || scope.has_outlived(inputs) {
                replan.insert(scope.id.gateway.clone());
            }
        }
        touched.extend(replan.iter().cloned());
        if std::mem::take(&mut self.is_dirty) {
            touched.extend(self.iter().map(|scope| scope.id.gateway.clone()).collect::<Vec<_>>());
        }
        for key in &touched {
            if inputs.translator.snapshot(&FleetId::main(key)).is_none() {
                continue;
            }
            let name: Arc<str> = key.namespaced_name().into();
            self.touched.insert(name.clone());
            self.ensure(key, &name, inputs);
            for scope in self.gateways.get_mut(&name).into_iter().flatten() {
                scope.whole.changed = true;
                if !replan.contains(key) && !scope.whole.held {
                    // Endpoints and similar changes: the plan stays the same.
                    scope.settle(Next::Restage, inputs);
                    continue;
                }
                edited(scope, &changes.routes, inputs.translator);
                scope.searches.edited();
                scope.settle(Next::Replan, inputs);
            }
        }
        apart::weigh_envoys(self, inputs);
    }

    /// Removes Gateways of an earlier run that are not among the objects after the first listing.
    fn drop_what_is_gone(&mut self, inputs: &StepInputs<'_>, actions: &mut Vec<Action>) {
        let is_there = |gateway: &str| {
            let Some((namespace, name)) = gateway.split_once('/') else { return false };
            let proxies = Some(listeners::key()).filter(|key| key.namespaced_name() == gateway);
            let written = || ObjectKey::new(holdfast_api::apis::gateway::GROUP, kinds::GATEWAY, namespace, name);
            let key = proxies.unwrap_or_else(written);
            inputs.translator.snapshot(&FleetId::main(&key)).is_some()
        };
        let gone: Vec<Arc<str>> = self.restored.keys().filter(|gateway| !is_there(gateway)).cloned().collect();
        for gateway in gone {
            self.restored.remove(&gateway);
            self.withdraw(gateway, actions);
        }
    }

    /// Creates the scopes of a Gateway, if it has none.
    fn ensure(&mut self, key: &ObjectKey, name: &Arc<str>, inputs: &mut StepInputs<'_>) {
        if self.gateways.contains_key(name) {
            return;
        }
        let mut scopes = Vec::new();
        let left = self.left.remove(name);
        for restored in self.restored.remove(name).or(left).unwrap_or_default().into_iter().take(BUILDS_MAX) {
            let fleet = match scopes.is_empty() {
                true => FleetId::main(key),
                false => FleetId { gateway: key.clone(), label: restored.build.clone() },
            };
            inputs.translator.open(&fleet, &FleetId::main(key));
            let mut scope = FallbackScope::new(key, &restored.build.clone(), fleet);
            restored.into_scope(&mut scope, inputs);
            scopes.push(scope);
        }
        if scopes.is_empty() {
            let build = inputs.probe.cloned().unwrap_or_default();
            scopes.push(FallbackScope::new(key, &build, FleetId::main(key)));
        }
        self.gateways.insert(name.clone(), scopes);
        // Before the leader has shared anything, the restored state applies.
        if self.follows && !self.learned.is_empty() {
            self.take_learned(name, inputs);
        }
        for (envoy, resumes) in self.early.remove(name).unwrap_or_default() {
            self.connected(&envoy, resumes, inputs);
        }
    }

    /// Returns the configurations to be published since the last call.
    pub fn publish(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for gateway in std::mem::take(&mut self.touched) {
            let Some(scopes) = self.gateways.get(&gateway) else { continue };
            let mut offers: Option<Offers> = None;
            for scope in scopes {
                if scope.id.is_apart() {
                    offers.iter_mut().for_each(|offers| apart::offer_apart(scope, offers));
                    continue;
                }
                let Some(Offered { everyone, waits, nodes, again }) = offered(scope) else { continue };
                match &mut offers {
                    None => {
                        let waiting = Waiting { everyone: waits, ..Waiting::default() };
                        offers = Some(Offers { everyone, nodes, waiting, again, ..Offers::default() });
                    }
                    Some(offers) => {
                        offers.builds.insert(scope.id.build.clone(), everyone);
                        offers.waiting.builds.extend(waits.then(|| scope.id.build.clone()));
                        offers.nodes.extend(nodes);
                        offers.again.extend(again);
                    }
                }
            }
            let Some(offers) = offers else { continue };
            if self.offered.get(&gateway).is_none_or(|before| differ(before, &offers)) {
                self.offered.insert(gateway.clone(), offers.clone());
                *self.generations.entry(gateway.clone()).or_insert(0) += 1;
                actions.push(Action::Publish { gateway, offers });
            }
        }
        self.offer_nothing(&mut actions);
        actions
    }

    /// Returns the offers for the Envoys of a Gateway, including the offer for builds without a scope of their own.
    pub fn offered(&self, gateway: &str) -> Option<&Offers> {
        self.offered.get(gateway)
    }

    /// Returns the refusals of content that is held back.
    pub fn refusals(&self) -> impl Iterator<Item = (&str, &Refusal)> {
        self.iter().flat_map(|scope| scope.hold.refusals().map(move |refusal| (&*scope.id.name, refusal)))
    }

    /// Returns whether changes to be stored were not taken yet.
    pub fn has_records(&self) -> bool {
        !self.gone.is_empty() || self.iter().any(|scope| !scope.records.is_empty())
    }

    /// Returns verdicts to be stored before anything that depends on them is published.
    pub fn take_convictions(&mut self) -> Batch {
        let mut batch = std::mem::take(&mut self.gone);
        for scope in self.gateways.values_mut().flatten() {
            let verdicts = scope.records.take_verdicts();
            if !scope.id.is_apart() {
                batch.append(verdicts);
            }
        }
        batch
    }

    /// Returns the searches for objects at fault that were completed since the last call.
    pub fn take_attributed(&mut self) -> Vec<Attributed> {
        self.gateways.values_mut().flatten().flat_map(|scope| scope.searches.durations.take()).collect()
    }

    /// Returns all other changes to be stored since the last call.
    pub fn take_records(&mut self) -> Batch {
        let mut batch = Batch::default();
        for scope in self.gateways.values_mut().flatten() {
            let changes = scope.records.take_changes(&scope.id, &scope.hold);
            if !scope.id.is_apart() {
                batch.append(changes);
            }
        }
        batch
    }
}

/// Returns the configurations for the Envoys of a scope.
pub(super) fn offered(scope: &FallbackScope) -> Option<Offered> {
    let trial = scope.trials.current.as_ref().map(|trial| (&trial.node, &trial.snapshot));
    scope.configurations.offers(&scope.stage, trial, &scope.members, &scope.hold)
}

fn differ(before: &Offers, after: &Offers) -> bool {
    let keys = |offers: &Offers| offers.builds.keys().chain(offers.nodes.keys()).cloned().collect::<Vec<_>>();
    (before.fresh_only, &before.waiting, &before.again) != (after.fresh_only, &after.waiting, &after.again)
        || keys(before) != keys(after)
        || differs(&before.everyone, &after.everyone)
        || before.builds.iter().any(|(build, old)| after.builds.get(build).is_none_or(|new| differs(old, new)))
        || before.nodes.iter().any(|(node, old)| after.nodes.get(node).is_none_or(|new| differs(old, new)))
}

/// Checks whether any content differs. The cost is proportional to the differences, because snapshots share equal
/// content.
pub(super) fn differs(before: &Snapshot, after: &Snapshot) -> bool {
    ResourceType::ALL.into_iter().any(|kind| before.of(kind).diff(after.of(kind)).next().is_some())
}
