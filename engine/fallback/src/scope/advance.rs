//! The steps of the rollout of a configuration: to the probe, to one Envoy, to all Envoys; or as far as the leader has.

use super::FallbackScope;
use crate::context::next::Next;
use crate::context::step_inputs::StepInputs;
use crate::rollout::answerable::answerable;
use crate::rollout::{Stage, Waiting, untried};

impl FallbackScope {
    /// Advances the rollout of the wanted configuration by one step.
    pub(crate) fn advance(&mut self, inputs: &mut StepInputs<'_>) -> Next {
        self.meanwhile.repeat();
        if inputs.follows {
            let next = if self.follow(inputs) { self.release(inputs) } else { Next::Nothing };
            self.try_for_the_leader(inputs);
            return next;
        }
        if self.stage.is_on_probe() {
            return Next::Nothing;
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
                self.probe(&judged, inputs);
                return Next::Nothing;
            }
        }
        if !matches!(self.stage, Stage::Canary { .. }) && self.trials.is_undisturbed(inputs.now_ms) {
            // Otherwise each edit would delay the suspects that wait for this trial.
            return Next::Nothing;
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
                return Next::Nothing;
            }
            if is_first && self.members.remote_nodes().next().is_none() {
                self.stage = Stage::Settled;
                return Next::Nothing;
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
        Next::Nothing
    }

    /// Offers the wanted configuration to all Envoys.
    pub(crate) fn release(&mut self, inputs: &mut StepInputs<'_>) -> Next {
        self.stage = Stage::Settled;
        self.meanwhile.repeat();
        self.configurations.release();
        let next = self.start_trial(inputs);
        let has_waited = self.derived.retry_at.is_some_and(|at| at <= inputs.now_ms);
        // All other owners have their new content: now the owners that waited for them have their turn.
        if self.fairness.released() && has_waited { Next::Replan } else { next }
    }
}
