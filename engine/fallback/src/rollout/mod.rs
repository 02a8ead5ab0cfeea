//! Rollout of a configuration to the Envoys of a scope: unproven content goes to the probe first; without a probe, it
//! goes to one Envoy, then to all others.
//!
//! Endpoints are not part of the rollout: they go to all Envoys at once. Of clusters that differ only in their names,
//! one is tried.

pub(crate) mod answerable;
pub mod configurations;
mod outlier_fleet;
pub(crate) mod served_endpoints;
pub mod stage;
pub(crate) mod unread;
pub(crate) mod untried;

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_xds::{AgainByName, Resource, ResourceType, Snapshot, Version};
use imbl::ordmap::DiffItem;

use self::answerable::answerable;
pub use self::stage::Stage;
use crate::context::step_inputs::StepInputs;
use crate::scope::FallbackScope;

/// Resource types that are tried before all Envoys receive them.
pub(crate) const TRIED: [ResourceType; 4] =
    [ResourceType::Cluster, ResourceType::Secret, ResourceType::Listener, ResourceType::Route];
/// The number of losses of Envoys on a content after which the content counts as refused.
pub(crate) const STRIKES_MAX: u32 = 2;

/// Resources with their versions.
pub type Waiting = BTreeMap<(ResourceType, Arc<str>), Version>;

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
        self.meanwhile.repeat();
        if inputs.follows {
            return self.follow(inputs);
        }
        if self.stage.is_on_probe() {
            return;
        }
        let unproven = self.configurations.unproven(&self.evidence, &self.hold);
        if unproven.is_empty() {
            return self.release(inputs);
        }
        self.configurations.begin_to_try(&self.evidence.forms, inputs.now_ms);
        if self.is_probed(inputs) {
            let judged = unproven.iter().filter(|(_, version)| !self.evidence.proof.is_unjudged(version));
            let judged: Waiting = judged.map(|(slot, version)| (slot.clone(), *version)).collect();
            if !judged.is_empty() {
                self.end_trial();
                return self.probe(&judged, inputs);
            }
        }
        if !matches!(self.stage, Stage::Canary { .. }) && self.trials.is_undisturbed(inputs.now_ms) {
            // Otherwise each edit would delay the suspects that wait for this trial.
            return;
        }
        // No Envoy has a configuration yet: the first Envoy that connects tries it, and the others wait for that one.
        let is_first = self.configurations.everyone.is_none();
        let untried = |node: &str| untried::has_untried_of_everyone(self, node);
        let Some(node) = self.members.candidate_for_new_content(untried) else {
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
        let waiting = answerable(&self.hold, &node, unproven, &self.configurations.wanted);
        if waiting.is_empty() {
            return self.release(inputs);
        }
        self.end_trial();
        self.stage = Stage::Canary { node, waiting, strikes, empty, began_ms, deadline };
    }

    /// Checks whether there is a probe of the same build.
    pub fn is_probed(&self, inputs: &StepInputs<'_>) -> bool {
        let is_same = |build: &Arc<str>| self.id.build.is_empty() || **build == *self.id.build;
        inputs.probe.is_some_and(is_same) && !self.searches.is_probe_paused(inputs.now_ms)
    }

    /// Offers the wanted configuration to all Envoys.
    pub(crate) fn release(&mut self, inputs: &mut StepInputs<'_>) {
        self.stage = Stage::Settled;
        self.meanwhile.repeat();
        self.configurations.release();
        self.start_trial(inputs);
        let has_waited = self.derived.retry_at.is_some_and(|at| at <= inputs.now_ms);
        if self.fairness.released() && has_waited {
            // All other owners have their new content: now the owners that waited for them have their turn.
            self.reconcile(inputs);
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
