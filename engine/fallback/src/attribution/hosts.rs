//! Refusals for reasons other than content, as `refusal.rs` classifies them: no object is searched, suspected or
//! convicted for them, and the refused resource is sent again until it is accepted.
//!
//! Envoy parses a listener with an address in use completely before it refuses the listener: for its content, that
//! equals an ACK.

use std::sync::Arc;

use holdfast_envoy::hold::unavailable::UNKNOWN_TRIES_MAX;
use holdfast_envoy::hold::{Refusal, Slot};
use holdfast_envoy::refusal::{self, RefusalClass};
use holdfast_xds::{Answer, ResourceType, Version};

use crate::context::next::Next;
use crate::context::step_inputs::StepInputs;
use crate::rollout::Stage;
use crate::rollout::answerable::answerable;
use crate::scope::FallbackScope;

impl FallbackScope {
    /// Handles a refusal if the content is not its cause; returns what follows in that case.
    pub(crate) fn refused_by_host(
        &mut self,
        answer: &Answer,
        name: &Arc<str>,
        version: Version,
        message: &str,
        inputs: &mut StepInputs<'_>,
    ) -> Option<Next> {
        let class = refusal::class(answer.kind, message);
        let slot: Slot = (answer.kind, name.clone());
        let is_content = match class {
            RefusalClass::Content => true,
            RefusalClass::Unknown => self.hold.unavailable.tries(&answer.node, &slot, version) >= UNKNOWN_TRIES_MAX,
            RefusalClass::Host | RefusalClass::Transient => false,
        };
        if is_content {
            self.hold.unavailable.forget(&answer.node, &slot);
            return None;
        }
        let refusal = Refusal {
            kind: answer.kind,
            resource: name.clone(),
            version: version.to_string(),
            node: answer.node.clone(),
            build: answer.build.clone(),
            message: message.to_owned(),
            class,
            refusers: Default::default(),
        };
        if !self.hold.unavailable.note(slot.clone(), version, refusal, inputs.now_ms) {
            return Some(Next::Nothing);
        }
        let (gateway, now) = (self.id.gateway.clone(), inputs.now());
        self.verdicts.since.entry(gateway).or_insert(now);
        if class != RefusalClass::Host || inputs.follows {
            return Some(Next::Nothing);
        }
        let next = self.answered_but_for_its_host(answer, name, version, inputs);
        // What the Envoy keeps of a listener may have to be closed.
        let is_listener = answer.kind == ResourceType::Listener;
        Some(next.and(if is_listener { Next::Restage } else { Next::Nothing }))
    }

    /// Continues the stage that waits for this answer.
    fn answered_but_for_its_host(
        &mut self,
        answer: &Answer,
        name: &Arc<str>,
        version: Version,
        inputs: &mut StepInputs<'_>,
    ) -> Next {
        let mut next = Next::Nothing;
        let slot: Slot = (answer.kind, name.clone());
        // Envoy does not subscribe to resources that only this listener names.
        if let Some(mut trial) = self.trials.current.take_if(|trial| *trial.node == *answer.node) {
            if trial.waiting.get(&slot) == Some(&version) {
                trial.waiting.remove(&slot);
            }
            trial.waiting = answerable(&self.hold, &answer.node, trial.waiting, &trial.snapshot);
            let is_answered = trial.waiting.is_empty();
            self.trials.current = Some(trial);
            if is_answered {
                next = self.trial_accepted(inputs);
            }
        }
        if let Stage::Canary { node, waiting, .. } = &self.stage
            && **node == *answer.node
        {
            let left = answerable(&self.hold, &answer.node, waiting.clone(), &self.configurations.wanted);
            if let Stage::Canary { waiting, .. } = &mut self.stage {
                *waiting = left;
            }
        }
        if self.stage.canary_acknowledged(&answer.node, answer.kind, name, version) {
            self.stage = Stage::Settled;
            next = next.and(Next::Advance);
        }
        next
    }

    /// Sends resources again after their wait; returns true if there are any.
    pub(crate) fn send_again(&mut self, now_ms: u64) -> bool {
        // The other replica sends the resource again to its own Envoys.
        self.hold.unavailable.take_due(now_ms, |node| self.members.is_local(node))
    }
}
