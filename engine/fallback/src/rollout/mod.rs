//! Rollout of a configuration to the Envoys of a scope: unproven content goes to the probe first; without a probe, it
//! goes to one Envoy, then to all others.
//!
//! Endpoints are not part of the rollout: they go to all Envoys at once. Of clusters that differ only in their names,
//! one is tried.

mod answerable;
pub mod configurations;
mod outlier_fleet;
mod outliers;
pub(crate) mod served_endpoints;
mod unread;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_envoy::inspect::clusters::shape;
use holdfast_xds::{AgainByName, Resource, ResourceType, Snapshot, Version};
use imbl::ordmap::DiffItem;

use crate::context::step_inputs::StepInputs;
use crate::rollout::served_endpoints::{with_all_endpoints, with_current_endpoints};
use crate::scope::FallbackScope;

/// Resource types that are tried before all Envoys receive them.
pub(crate) const TRIED: [ResourceType; 4] =
    [ResourceType::Cluster, ResourceType::Secret, ResourceType::Listener, ResourceType::Route];
/// The number of losses of Envoys on a content after which the content counts as refused.
pub(crate) const STRIKES_MAX: u32 = 2;

/// Resources with their versions.
pub type Waiting = BTreeMap<(ResourceType, Arc<str>), Version>;

/// The stage of the wanted configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// All Envoys are offered the configuration.
    Settled,
    /// The configuration is on the probe.
    Probing {
        /// The time at which the probe counts as silent, in milliseconds of Unix time.
        until_ms: u64,
    },
    /// The configuration waits for the leader.
    Following,
    /// One Envoy is offered the configuration.
    Canary {
        /// The node of the Envoy.
        node: Arc<str>,
        /// The resources that the Envoy has not answered yet.
        waiting: Waiting,
        /// The number of losses of an Envoy on this configuration.
        strikes: u32,
        /// Whether the Envoy has lost its configuration. In that case it is first offered the proven one.
        empty: bool,
        /// The start of the offer, in milliseconds of Unix time.
        began_ms: u64,
        /// The time at which the Envoy counts as silent, in milliseconds of Unix time.
        deadline: u64,
    },
}

/// The configurations for the Envoys of a scope.
pub struct Offered {
    /// The configuration for all Envoys.
    pub everyone: Snapshot,
    /// Whether this configuration is not to be sent yet.
    pub waits: bool,
    /// Configurations for single Envoys, by node.
    pub nodes: BTreeMap<Arc<str>, Snapshot>,
    /// Resources that single Envoys are sent again, by node.
    pub again: BTreeMap<Arc<str>, AgainByName>,
}

impl FallbackScope {
    /// Advances the rollout of the wanted configuration by one step.
    pub fn advance(&mut self, inputs: &mut StepInputs<'_>) {
        if inputs.follows {
            return self.follow(inputs);
        }
        if matches!(self.stage, Stage::Probing { .. }) {
            return;
        }
        let unproven = self.unproven();
        if unproven.is_empty() {
            return self.release(inputs);
        }
        self.begins_to_try(inputs);
        if self.is_probed(inputs) {
            let judged = unproven.iter().filter(|(_, version)| !self.evidence.proof.is_unjudged(version));
            let judged: Waiting = judged.map(|(slot, version)| (slot.clone(), *version)).collect();
            if !judged.is_empty() {
                self.end_trial();
                return self.probe(&judged, inputs);
            }
        }
        if !matches!(self.stage, Stage::Canary { .. }) && self.is_undisturbed(inputs.now_ms) {
            // Otherwise each edit would delay the suspects that wait for this trial.
            return;
        }
        // No Envoy has a configuration yet: the first Envoy that connects tries it, and the others wait for that one.
        let is_first = self.configurations.everyone.is_none();
        let Some(node) = self.members.candidate_for_new_content() else {
            // The Envoy that ended on this content has to reconnect and receive the proven configuration first, however
            // long that takes.
            if let Stage::Canary { strikes: 1.., deadline, .. } = &mut self.stage {
                if *deadline <= inputs.now_ms {
                    *deadline = inputs.now_ms.saturating_add(inputs.settings.fallback.ack_timeout_ms);
                }
                return;
            }
            if is_first && self.members.remote_nodes().next().is_none() {
                self.stage = Stage::Settled;
                return;
            }
            return self.release(inputs);
        };
        // An Envoy that resumes with a configuration keeps it during the rollout.
        if is_first && matches!(self.stage, Stage::Settled) && !self.members.is_fresh(&node) {
            return self.release(inputs);
        }
        let others_speak = !self.members.is_silent(&node);
        let fresh = inputs.now_ms.saturating_add(inputs.settings.fallback.ack_timeout_ms);
        let now_ms = inputs.now_ms;
        let (strikes, node, empty, began_ms, deadline) = match &self.stage {
            // A disconnected Envoy has time to reconnect, so that no other Envoy is put at risk. This does not apply if
            // the others have no configuration meanwhile. The silence of one Envoy proves nothing about the content: an
            // Envoy that answers tries it next.
            Stage::Canary { node, strikes, empty, began_ms, deadline, .. }
                if (self.members.is_connected(node) && !(others_speak && self.members.is_silent(node)))
                    || (*deadline > inputs.now_ms && !is_first) =>
            {
                let (began_ms, again) = if *deadline > now_ms { (*began_ms, *deadline) } else { (now_ms, fresh) };
                (*strikes, node.clone(), *empty, began_ms, again)
            }
            Stage::Canary { strikes, .. } => (*strikes, node, false, now_ms, fresh),
            _ => (0, node, false, now_ms, fresh),
        };
        let waiting = self.answerable(&node, unproven, &self.configurations.wanted);
        if waiting.is_empty() {
            return self.release(inputs);
        }
        self.end_trial();
        self.stage = Stage::Canary { node, waiting, strikes, empty, began_ms, deadline };
    }

    /// Checks whether there is a probe of the same build.
    pub fn is_probed(&self, inputs: &StepInputs<'_>) -> bool {
        let is_same = |build: &Arc<str>| self.id.build.is_empty() || **build == *self.id.build;
        inputs.probe.is_some_and(is_same) && self.searches.probe_pauses_until <= inputs.now_ms
    }

    /// Offers the wanted configuration to all Envoys.
    pub(crate) fn release(&mut self, inputs: &mut StepInputs<'_>) {
        self.stage = Stage::Settled;
        self.configurations.trying = None;
        if let Some(before) = self.configurations.everyone.replace(self.configurations.wanted.clone())
            && before != self.configurations.wanted
        {
            self.configurations.previous = before;
        }
        self.start_trial(inputs);
        let has_waited = self.derived.retry_at.is_some_and(|at| at <= inputs.now_ms);
        if self.fairness.released() && has_waited {
            // All other owners have their new content: now the owners that waited for them have their turn.
            self.reconcile(inputs);
        }
    }

    /// Returns the resources with parts that no Envoy has acknowledged.
    pub(crate) fn unproven(&self) -> Waiting {
        let nothing = Snapshot::default();
        let before = self.configurations.everyone.as_ref().unwrap_or(&nothing);
        let mut unproven = Waiting::new();
        let mut shapes = BTreeSet::new();
        for kind in TRIED {
            for resource in changes(before, &self.configurations.wanted, kind) {
                let mut is_new = || kind != ResourceType::Cluster || shapes.insert(shape(&resource.body));
                if !self.evidence.is_known_good(&self.hold, kind, &resource) && is_new() {
                    unproven.insert((kind, resource.name.clone()), resource.version);
                }
            }
        }
        unproven
    }

    /// Records an answer of the canary; returns true if the canary has now answered for all resources.
    pub(crate) fn canary_acknowledged(
        &mut self,
        node: &str,
        kind: ResourceType,
        name: &Arc<str>,
        version: Version,
    ) -> bool {
        let Stage::Canary { node: canary, waiting, .. } = &mut self.stage else { return false };
        let slot = (kind, name.clone());
        if **canary == *node && waiting.get(&slot) == Some(&version) {
            waiting.remove(&slot);
        }
        waiting.is_empty()
    }

    /// Records the connection of the canary, with or without its earlier configuration.
    pub(crate) fn canary_connected(&mut self, envoy: &str, resumes: bool) {
        if let Stage::Canary { node, empty, .. } = &mut self.stage
            && **node == *envoy
        {
            *empty = !resumes;
        }
    }

    /// Records that an Envoy has accepted a resource: it has the proven configuration.
    pub(crate) fn canary_filled(&mut self, envoy: &str) {
        self.canary_connected(envoy, true);
    }

    /// Records the loss of an Envoy: its stream ended, or it did not answer in time. Two losses on the same content,
    /// while another Envoy answers, count as a refusal without a message. After a silence, the second loss is that of
    /// another Envoy.
    pub(crate) fn canary_lost(&mut self, node: &str) -> bool {
        let others = self.members.others_answer(node);
        let Stage::Canary { node: canary, strikes, waiting, .. } = &mut self.stage else { return false };
        if **canary != *node || waiting.is_empty() {
            return false;
        }
        *strikes += 1;
        others && *strikes >= STRIKES_MAX
    }

    /// Returns the configurations for the Envoys of the scope: one for all of them, and others for single ones by node.
    ///
    /// Untried content is offered only to the Envoy that tries it.
    pub fn offers(&self) -> Option<Offered> {
        let current = |snapshot: &Snapshot| {
            with_current_endpoints(snapshot, &self.configurations.wanted, &self.configurations.kept_endpoints)
        };
        let mut nodes = BTreeMap::new();
        match (&self.stage, &self.trials.current) {
            (Stage::Canary { node, empty, .. }, _) if !empty || self.configurations.everyone.is_none() => {
                nodes.insert(node.clone(), self.configurations.wanted.clone());
            }
            (_, Some(trial)) if !self.members.is_remote(&trial.node) => {
                nodes.insert(trial.node.clone(), current(&trial.snapshot));
            }
            _ => {}
        }
        let everyone = self.configurations.everyone.as_ref();
        for (node, outlier) in self.members.outliers() {
            if let Some(snapshot) = everyone.and_then(|everyone| outlier.offered(everyone)) {
                let current =
                    || with_all_endpoints(&snapshot, &self.configurations.wanted, &self.configurations.kept_endpoints);
                nodes.entry(node.clone()).or_insert_with(current);
            }
        }
        let mut again: BTreeMap<Arc<str>, AgainByName> = BTreeMap::new();
        for (node, slot, turn) in self.hold.unavailable.again() {
            again.entry(node.clone()).or_default().insert(slot.clone(), turn);
        }
        match everyone {
            Some(everyone) => Some(Offered { everyone: current(everyone), waits: false, nodes, again }),
            None if matches!(self.stage, Stage::Probing { .. }) => None,
            None => Some(Offered { everyone: self.configurations.wanted.clone(), waits: true, nodes, again }),
        }
    }
}

/// Returns a number for a trial.
pub fn next(inputs: &mut StepInputs<'_>) -> u64 {
    *inputs.next_trial += 1;
    *inputs.next_trial
}

/// Returns the resources of a type that are new or changed in the later of two snapshots.
pub(crate) fn changes<'a>(
    before: &'a Snapshot,
    after: &'a Snapshot,
    kind: ResourceType,
) -> impl Iterator<Item = Arc<Resource>> + 'a {
    before.of(kind).diff(after.of(kind)).filter_map(|item| match item {
        DiffItem::Add(_, resource) => Some(resource.clone()),
        DiffItem::Update { old: (_, old), new: (_, new) } => (old.version != new.version).then(|| new.clone()),
        DiffItem::Remove(..) => None,
    })
}
